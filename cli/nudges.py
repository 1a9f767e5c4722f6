"""A signal that comes just as a wait begins is heard soon; it would wait with it otherwise.

Python notes a signal and acts on it between two of its own steps. If it comes after the last of
them and before the system has begun to wait, as for a line of standard input, or if another thread
than the first gets it, nothing ends the wait, and Ctrl-C would do nothing until the next line.
"""

import os
import signal
import threading
import time

_AFTER_S = (0.05, 0.2, 1.0)  # by then the wait has begun; once more for a machine that is busy
_NUDGE = signal.SIGURG  # which nobody uses, and which is ignored where nobody listens


def nudge_waits() -> None:
    """Have every signal end what the first thread waits for; for a process' first thread."""
    ours, told = os.pipe()
    os.set_blocking(told, False)
    signal.signal(_NUDGE, lambda *_: None)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_nudge, args=(ours,), name="foretell-nudges", daemon=True).start()


def _nudge(ours: int) -> None:
    first = threading.main_thread()
    while numbers := os.read(ours, 512):
        if set(numbers) == {_NUDGE}:
            continue  # our own
        for pause_s in _AFTER_S:
            time.sleep(pause_s)
            if first.ident is not None:
                signal.pthread_kill(first.ident, _NUDGE)
