"""Bearer tokens: a file that holds no token but their hashes, and the check of one.

A line is NAME SHA256 GROUPS [UNTIL]; blank lines and those that begin with # are left out:

    # who      sha256 of the token, in hexadecimal    what it may do        until
    billing    9f86d081884c7d659a2feaa0c55ad015...    inference             2027-01-31T00:00:00Z
    deploy     60303ae22b998861bce3b28f33eec1be...    metadata,repository

Tokens must be random, 128 bits or more, as `foretell token` makes them: a plain hash protects
nothing that can be guessed. No message, here or in the log, holds a token or a hash.
"""

import hashlib
import hmac
import itertools
import math
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from foretell.data.errors import OptionError
from foretell.data.plain_files import read_plain
from foretell.server.access.reloading import Reloaded
from foretell.server.errors import TokenFileError, UnauthenticatedError

GROUPS = ("inference", "metadata", "repository")
CLOCK_DRIFT_S = 30.0  # clocks of servers and of whoever wrote the file may differ by so much

_MOST_TOLD = 10  # problems of a file; it may be another kind of file, all of whose lines are wrong
_MOST_TOKENS = 1000  # each call is compared with all of them
_MOST_BYTES = 1024 * 1024
_LONGEST = 4096  # characters of a token
_TOKEN_BYTES = 32  # of chance in one of ours
_HEADING = "# NAME SHA256 GROUPS [UNTIL]"
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Token:
    """What a token may do, without the token.

    Attributes:
        name: Whom it was given to.
        digest: Its SHA-256.
        groups: What it may do, of `GROUPS`.
        until_s: Seconds since 1970 at which it ends; infinite where it doesn't.
    """

    name: str
    digest: bytes
    groups: frozenset[str]
    until_s: float = math.inf


class TokenFile:
    """The tokens of a file, read again when it changes.

    A file that is changed into a bad or an empty one is logged, and the tokens before it stay in
    force: an editor that is just writing must lock nobody out. To revoke a token, take its line
    out; to revoke all, stop the server, or leave a line of a token that nobody has.

    Args:
        path: Of the file.
        check_every_s: Seconds for which the file is not looked at again.
        clock: Seconds since 1970.

    Raises:
        TokenFileError: The file can't be read, is malformed, or holds no token.
    """

    def __init__(
        self,
        path: Path,
        *,
        check_every_s: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._tokens = Reloaded((path,), lambda: read_tokens(path), check_every_s=check_every_s)

    @property
    def is_due(self) -> bool:
        """Whether `check` looks at the file; who may not wait for a disk calls `look` first."""
        return self._tokens.is_due

    def look(self) -> None:
        """Read the file again if it is time to, and if it has changed."""
        self._tokens.get()

    def check(self, presented: str) -> Token:
        """Find the token that a caller presents; how long it takes tells nothing of the others.

        Raises:
            UnauthenticatedError: It is none, or its time is over.
        """
        digest = hashlib.sha256(presented.encode(errors="surrogateescape")).digest()
        found = None
        for token in self._tokens.get():
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None or len(presented) > _LONGEST:
            raise UnauthenticatedError("the token is not one that this server knows.")
        if self._clock() > found.until_s + CLOCK_DRIFT_S:
            raise UnauthenticatedError("the token's time is over; ask for a new one.")
        return found


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Read a file of tokens.

    Raises:
        TokenFileError: It can't be read, is malformed, or holds no token; the first problems are
            named, by line, and the others counted.
    """
    tokens, problems = _read(_text_of(path), path)
    if not tokens and not problems:
        problems.append(f"{path} holds no token; add one with `foretell token`.")
    if problems:
        raise TokenFileError(_first(problems))
    return tokens


def add_token(path: Path, name: str, groups: str, until: str | None = None) -> str:
    """Make a token and add its line to a file, a new one where there is none.

    Args:
        path: Of the file.
        name: Whom the token is for.
        groups: What it may do, of `GROUPS`, with commas between them.
        until: When it ends, with its zone; None for never.

    Returns:
        The token, which stands nowhere else.

    Raises:
        OptionError: The name, the groups or the time can't be; nothing is written.
        TokenFileError: The file is bad, or can't be written; nothing is written.
    """
    text = (_text_of(path) if path.exists() else "") or _HEADING
    there, problems = _read(text, path)
    if problems:
        raise TokenFileError(_first(problems))
    if problems := _option_problems(path, {one.name for one in there}, name, groups, until):
        raise OptionError(problems)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    digest = hashlib.sha256(token.encode()).hexdigest()
    line = " ".join([name, digest, groups, *([until] if until else [])])
    fresh = path.with_name(f".{path.name}.new")
    try:
        # Whole and at once: a server may be reading it.
        fresh.write_text(f"{text.rstrip()}\n{line}\n")
        read_tokens(fresh)
        fresh.replace(path)
    except TokenFileError as error:
        raise TokenFileError(
            [problem.replace(str(fresh), str(path)) for problem in error.problems]
        ) from None
    except OSError as error:
        raise TokenFileError(f"{path} can't be written: {error.strerror}.") from error
    finally:
        fresh.unlink(missing_ok=True)
    return token


def _read(text: str, path: Path) -> tuple[tuple[Token, ...], list[str]]:
    """Read the tokens of a file, and tell what is wrong with it."""
    problems: list[str] = []
    tokens = tuple(
        token
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
        if (token := _read_line(line.split(), f"{path} line {number}", problems)) is not None
    )
    if len(tokens) > _MOST_TOKENS:
        problems.append(f"{path} holds {len(tokens):,} tokens; at most {_MOST_TOKENS:,} can be.")
    for what, values in (
        ("name", [token.name for token in tokens]),
        ("token", [token.digest for token in tokens]),
    ):
        if len(set(values)) < len(values):
            problems.append(f"{path} has a {what} twice; each line needs one of its own.")
    return tokens, problems


def _first(problems: list[str]) -> list[str]:
    more = len(problems) - _MOST_TOLD
    return problems[:_MOST_TOLD] + ([f"and {more:,} more."] if more > 0 else [])


def _option_problems(
    path: Path, there: set[str], name: str, groups: str, until: str | None
) -> list[str]:
    """Tell what is wrong with a new token, in terms of what was asked."""
    problems = []
    if not _NAME.fullmatch(name):
        problems.append(f"NAME is {name[:100]!r}; write at most 64 of A-Z a-z 0-9 _ . @ -")
    elif name in there:
        other = next(other for at in itertools.count(2) if (other := f"{name}-{at}") not in there)
        problems.append(
            f"{path} has a token for {name} already; take another name for the new token, such as "
            f"{other}; take the old line out later."
        )
    if not set(groups.split(",")) <= set(GROUPS):
        problems.append(
            f"groups is {groups[:100]!r}; give some of {', '.join(GROUPS)}, with commas between "
            "them and nothing else."
        )
    until_s = math.inf if until is None else _read_time(until)
    if until_s is None:
        problems.append(
            f"until is {until!r:.100}; give a time with its zone, such as 2027-01-31T00:00:00Z."
        )
    elif until_s <= time.time():
        problems.append(f"until is {until!r:.100}, which is past; give a time to come.")
    return problems


def _text_of(path: Path) -> str:
    try:
        return read_plain(path, _MOST_BYTES).decode()
    except OSError as error:
        raise TokenFileError(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise TokenFileError(f"{path} is no text file in UTF-8.") from error


def _read_line(fields: list[str], where: str, problems: list[str]) -> Token | None:
    """Read one line; a field may be a token put there by mistake, so no problem shows any."""
    if len(fields) not in {3, 4}:
        problems.append(f"{where} has {len(fields)} fields; write NAME SHA256 GROUPS [UNTIL].")
        return None
    name, digest, groups, *until = fields
    found = []
    if not _NAME.fullmatch(name):
        found.append("the name is none; at most 64 of A-Z a-z 0-9 _ . @ -")
    if not _DIGEST.fullmatch(digest):
        found.append("the second field is no SHA-256; it has 64 hexadecimal digits")
    if not set(groups.split(",")) <= set(GROUPS):
        found.append(f"the groups are not all of {', '.join(GROUPS)}, with commas between them")
    until_s = _read_time(until[0]) if until else math.inf
    if until_s is None:
        found.append("the time is none with its zone, such as 2027-01-31T00:00:00Z")
    problems += [f"{where}: {problem}." for problem in found]
    if found or until_s is None:
        return None
    return Token(name, bytes.fromhex(digest), frozenset(groups.split(",")), until_s)


def _read_time(text: str) -> float | None:
    try:
        time_read = datetime.fromisoformat(text)
        return time_read.timestamp() if time_read.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
