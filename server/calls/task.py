"""What a request asks of a translator, whatever the wire it came over."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from foretell.data.text.translation import TranslateOptions

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Task(Generic[Item]):
    """What a request asks of a translator.

    Attributes:
        items: Sentences or pairs; a refused one is blank, so that all keep their places.
        options: For all items, or one an item; empty where there is nothing to choose.
        refusals: Items that are too long, by position.
    """

    items: list[Item]
    options: tuple[TranslateOptions, ...]
    refusals: dict[int, str]

    def option_of(self, position: int) -> TranslateOptions:
        """The options of one item."""
        return self.options[position if len(self.options) > 1 else 0]
