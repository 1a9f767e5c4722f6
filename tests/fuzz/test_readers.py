"""What is fuzzed by hand keeps running: readers take seeds and some noise, without atheris."""

import importlib.util
import random
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
FUZZ = runpy.run_path(str(FOLDER / "fuzz.py"))
INPUTS = 200


def load(name):
    spec = importlib.util.spec_from_file_location(f"fuzzed_{name}", FOLDER / f"readers/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def damaged(seed, rng):
    """Noise, or a seed with some of its bytes exchanged, doubled and cut."""
    if rng.random() < 0.2:
        return rng.randbytes(rng.randrange(100))
    content = bytearray(seed)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(content) + 1)
        piece = rng.choice(
            [b"", rng.randbytes(1), b"\xff\xff", b"\0", bytes(content[at : at + 20])]
        )
        content[at : at + rng.randrange(4)] = piece
    return bytes(content)


@pytest.mark.parametrize("name", FUZZ["READERS"])
def test_a_reader_takes_whatever_comes(name):
    reader, rng = load(name), random.Random(name)
    seeds = list(reader.seeds())
    assert len(set(seeds)) > 2, "a fuzzer needs something to begin with"
    for data in [*seeds, *(damaged(rng.choice(seeds), rng) for _ in range(INPUTS))]:
        reader.read(data)


def test_the_fuzzer_says_what_it_needs(tmp_path):
    (tmp_path / "atheris.py").write_text("raise ImportError")
    command = [sys.executable, FOLDER / "fuzz.py"]
    environment = {"PYTHONPATH": str(tmp_path)}
    for arguments, told in ((["nothing"], "name a reader: forecaster_codec"), (["options"], "pip")):
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert told in done.stderr
