"""Whatever shapes come and in whatever order, memory stays what the largest of them took.

Elsewhere an arena that grows by powers of two, or a plan kept for each shape, filled the machine.
"""

import subprocess
import sys

import pytest

FORECASTS = """
import numpy as np
from foretell.runtime import load
import pandas as pd

model = load(sys.argv[1], device="cpu", threads=1)

def ask(size):
    count, steps, horizon = size
    stamps = np.tile(pd.date_range("2024-01-01", periods=steps), count)
    ids = np.repeat(np.arange(count), steps)
    table = pd.DataFrame({"unique_id": ids, "ds": stamps, "y": np.sin(np.arange(float(len(ids))))})
    model.forecast(table, horizon, freq="D")

largest = (64, 60, 1200)
sizes = [tuple(int(x) for x in rng.integers((1, 2, 1), largest)) for _ in range(60)]
"""

TRANSLATIONS = """
from foretell.data.text.number_words import english_words
from foretell.data.text.translation import TranslateOptions
from foretell.runtime import load

model = load(sys.argv[1], device="cpu", threads=1)

def ask(size):
    count, beam = size
    texts = [english_words(at % 1000) for at in range(count)]
    model.translate(texts, TranslateOptions(beam_size=beam))

largest = (100, 16)
sizes = [tuple(int(x) for x in rng.integers((1, 1), largest)) for _ in range(30)]
"""

SCRIPT = """
import sys
import numpy as np
rng = np.random.default_rng(5)
{asks}
def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

before = resident_mib()
ask(largest)
ask(largest)
taken = resident_mib()
for size in sizes:
    ask(size)
print(before, taken, resident_mib())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("bundle", "asks"),
    [("bundle_path", FORECASTS), ("translator_bundle_path", TRANSLATIONS)],
    ids=["forecasts", "translations"],
)
def test_smaller_shapes_take_no_more_than_the_largest_did(request, bundle, asks):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(asks=asks), request.getfixturevalue(bundle)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, taken, after = map(float, done.stdout.split())
    assert after < taken + max(16, 0.25 * (taken - before))
