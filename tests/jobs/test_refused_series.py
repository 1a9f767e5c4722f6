"""What is told of refused series: all are counted, and the memory of it doesn't grow with them."""

from foretell.jobs.tables.refused_series import MOST_SHOWN, RefusedSeries


def test_reasons_are_told_in_order_with_their_first_names():
    found = RefusedSeries.of([("a", "blank"), (7, "short"), ("b", "blank")])
    assert found.count == found.num_shown == 3
    assert [*found.by_reason()] == [("blank", ["a", "b"], 2), ("short", ["7"], 1)]


def test_of_a_million_only_the_first_are_kept():
    alike = RefusedSeries.of((number, "blank") for number in range(100_000))
    (only,) = alike.by_reason()
    assert only == ("blank", [str(number) for number in range(MOST_SHOWN)], 100_000)
    each = RefusedSeries.of((number, f"row {number}") for number in range(100_000))
    assert [names for _, names, _ in each.by_reason()] == [[str(i)] for i in range(MOST_SHOWN)]
    assert (each.count, each.num_shown) == (100_000, MOST_SHOWN)
