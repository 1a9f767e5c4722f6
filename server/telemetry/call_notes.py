"""What is noted of the call that runs here: for its line in the log, its metrics and its span."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

_MOST_PHASES = 99  # a stream may go on for days


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a call's time.

    Attributes:
        name: Such as "queue" or "compute".
        begun_s: On the clock of `time.monotonic`.
        ended_s: Alike.
        facts: What else is known, by name.
        batches: What `Tracing.begin_batch` made of the batches that it went into.
    """

    name: str
    begun_s: float
    ended_s: float
    facts: Mapping[str, int] = field(default_factory=dict)
    batches: Sequence[object] = ()


@dataclass(slots=True)
class CallNotes:
    """One call.

    Attributes:
        method: As gRPC names it, "/package.Service/Method".
        request_id: Under which the log tells of it.
        trace_id: The caller's, 32 hexadecimal digits; empty where none came.
        started_s: When it came, on the clock of `time.monotonic`.
        peer: Who calls, as gRPC writes an address.
        token: Name of the token that he showed; empty where none was asked for.
        model: Which it asks, once that is known: a served one's name, never the caller's text.
        version: Of the model.
        phases: What its time went into, where a span is made of the call; of a stream of many
            requests the first ones.
        spent_s: The same added up by name, of all.
        span: What `Tracing.begin_call` made of it.
    """

    method: str
    request_id: str
    trace_id: str
    started_s: float
    peer: str = ""
    token: str = ""
    model: str = ""
    version: int = 0
    phases: list[Phase] = field(default_factory=list)
    spent_s: dict[str, float] = field(default_factory=dict)
    span: object = None


_current: ContextVar[CallNotes | None] = ContextVar("call_notes", default=None)
_token: ContextVar[str] = ContextVar("token", default="")


def begin_notes(notes: CallNotes) -> None:
    """Give the call that runs here its notes."""
    _current.set(notes)


def current_notes() -> CallNotes | None:
    """The notes of the call that runs here; None outside of calls."""
    return _current.get()


def note_token(name: str) -> None:
    """Note by which token the call is let in that is about to run here."""
    _token.set(name)


def current_token() -> str:
    """The name of the token by which the call that runs here was let in; empty where none was."""
    return _token.get()


def note_model(name: str, version: int) -> None:
    """Note which model the call that runs here asks."""
    notes = _current.get()
    if notes is not None:
        notes.model, notes.version = name, version


def note_phase(
    name: str, begun_s: float, ended_s: float, *, batches: Sequence[object] = (), **facts: int
) -> None:
    """Note what a part of the time of the call that runs here went into; see `Phase`."""
    notes = _current.get()
    if notes is not None:
        notes.spent_s[name] = notes.spent_s.get(name, 0.0) + ended_s - begun_s
        if notes.span is not None and len(notes.phases) < _MOST_PHASES:
            notes.phases.append(Phase(name, begun_s, ended_s, facts, batches))
