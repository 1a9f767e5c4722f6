"""The texts of a call's options, their prefixes and what they ban, as ids."""

from collections.abc import Callable

from foretell.data.text.tokenizer import Tokenizer
from foretell.data.text.translation import TranslateOptions

Ids = tuple[int, ...]


def _go_on() -> None:
    pass


class OptionTexts:
    """Encodes each text once a call, however many sentences and options share it.

    Equal options get the very same tuples: a thousand sentences hold what they ban in common.
    """

    def __init__(self, tokenizer: Tokenizer, on_step: Callable[[], None] | None = None) -> None:
        """Take the model's tokenizer.

        Args:
            tokenizer: It.
            on_step: Called before each text; what it raises ends the call.
        """
        self._tokenizer = tokenizer
        self._on_step = on_step or _go_on
        self._ids: dict[str, Ids] = {}
        self._banned: dict[tuple[str, ...], tuple[Ids, ...]] = {}
        # By identity, which costs nothing to tell, with what keeps it alive.
        self._known: dict[int, tuple[tuple[str, ...], tuple[Ids, ...]]] = {}

    def ids(self, text: str) -> Ids:
        """Return the pieces of a text; none of a blank one, and of no other."""
        if text not in self._ids:
            self._on_step()
            self._ids[text] = tuple(self._tokenizer.encode(text))
        return self._ids[text]

    def banned(self, options: TranslateOptions) -> tuple[Ids, ...]:
        """Return the pieces of each text that these options ban."""
        texts = options.banned
        if id(texts) not in self._known:
            if texts not in self._banned:
                self._banned[texts] = tuple(map(self.ids, texts))
            self._known[id(texts)] = (texts, self._banned[texts])
        return self._known[id(texts)][1]
