"""A text file that a job reads again when it is resumed: the same bytes each time, or none."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from foretell.data.errors import TextError
from foretell.data.tables.seen_files import FileState
from foretell.data.text.lines import Line, arriving_lines, arriving_records
from foretell.jobs.journals.sealed import FINGERPRINT


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of lines, and what its bytes were when it was looked at.

    Attributes:
        path: Of the file.
        num_lines: How many it has, text or not.
        fingerprint: Of its bytes, packed or not.
        state: Of it: while this stays, so do the bytes.
    """

    path: str
    num_lines: int
    fingerprint: str
    state: FileState

    def lines(self) -> Iterator[Line]:
        """Read the lines.

        A file that is removed or replaced meanwhile is read to its end, as it was.

        Raises:
            TextError: It can't be read, or has other bytes by now.
        """
        state = self._checked(self.state, _look(self.path))
        digest = hashlib.sha256()
        for lines in arriving_lines(self.path, seen=digest.update):
            state = self._still(state)
            yield from lines
        if _named(digest) != self.fingerprint:
            raise self._changed()

    def check(self) -> None:
        """Make sure that the file holds what it held; a copy, as other machines may see, will do.

        Raises:
            TextError: It has changed, or can't be read.
        """
        now = _look(self.path)
        if now != self.state and (
            now.size != self.state.size or _fingerprint_at(self.path, now) != self.fingerprint
        ):
            raise self._changed()

    def _still(self, state: FileState) -> FileState:
        try:
            now = FileState.of(os.stat(self.path))
        except OSError:
            return state  # it was removed; what was opened stays
        was_replaced = (now.device, now.inode) != (state.device, state.inode)
        return state if was_replaced else self._checked(state, now)

    def _checked(self, state: FileState, now: FileState) -> FileState:
        """Return the state in which it is now, if its bytes are the same all the same."""
        if now != state and look_at_text(self.path).fingerprint != self.fingerprint:
            raise self._changed()
        return now

    def _changed(self) -> TextError:
        return TextError(
            f"{self.path} was changed while it was read, and its lines belong together. Start anew "
            "once it stays as it is."
        )


def is_text_file(source: str) -> bool:
    """Whether a source can be read more than once: no pipe, no device."""
    return source != "-" and os.path.isfile(source)


def look_at_text(path: str) -> TextFile:
    """Read a file once to know its lines and its bytes.

    Raises:
        TextError: It can't be read.
    """
    state = _look(path)
    digest = hashlib.sha256()
    num_lines = sum(len(lines) for lines in arriving_records(path, seen=digest.update))
    return TextFile(path, num_lines, _named(digest), state)


def _look(path: str) -> FileState:
    try:
        return FileState.of(os.stat(path))
    except OSError as error:
        raise TextError(f"{path} can't be read ({error.strerror}).") from error


@lru_cache(maxsize=16)
def _fingerprint_at(path: str, state: FileState) -> str:
    """Read a file in a state: once, not for every chunk."""
    return look_at_text(path).fingerprint


def _named(digest: Any) -> str:
    return FINGERPRINT + str(digest.hexdigest())
