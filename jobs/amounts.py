"""Amounts as people read them."""


def counted(number: int, unit: str) -> str:
    """Count things: "1 line", "1,024 lines", "3 series".

    Args:
        number: How many.
        unit: One of them, such as "line"; "series" is one and many.
    """
    return f"{number:,} {unit}{'' if number == 1 or unit.endswith('s') else 's'}"
