"""The command line, with a translator that turns words round and stops at a line until it is told.

`python slow_translate.py LINE ARGUMENTS...`: what lies before the line is translated and kept, each
chunk a part, and the number of lines kept so far is printed; then nothing happens any more.
"""

import runpy
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from foretell.cli import main, parameters
from foretell.data.errors import ForetellError
from foretell.jobs.journals.journal import Journal
from foretell.jobs.lines import output as line_output

Backwards = runpy.run_path(str(Path(__file__).with_name("conftest.py")))["Backwards"]
line_to_stop_at = int(sys.argv.pop(1))
told_to_stop = threading.Event()


def translate(sentences, options, *, first_place=0):
    if first_place + len(sentences) > line_to_stop_at:
        if first_place == 0:
            tell(0)
        told_to_stop.wait()
        raise ForetellError("stopped")
    return Backwards().translate(sentences, options, first_place=first_place)


@contextmanager
def door():
    with Backwards().door() as fast:
        yield replace(fast, translate=translate, stop=told_to_stop.set)


def add(self, *arguments, **options):
    keep(self, *arguments, **options)
    tell(self.totals["line"])


def tell(number):
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


keep, Journal.add = Journal.add, add
line_output._SECONDS_OF_A_PART = 0.0
parameters.translator_door = lambda *_: door
main.main()
