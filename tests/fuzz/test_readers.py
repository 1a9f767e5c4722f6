"""What is fuzzed by hand keeps running: readers take seeds and some noise, without atheris."""

import importlib.util
import random
import runpy
import subprocess
import sys
from functools import partial
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


def damage(content, rng):
    """Exchange, double and cut some bytes."""
    content = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(content) + 1)
        piece = rng.choice(
            [b"", rng.randbytes(1), b"\xff\xff", b"\0", bytes(content[at : at + 20])]
        )
        content[at : at + rng.randrange(4)] = piece
    return bytes(content)


def inputs(reader, rng):
    """The seeds, and then noise, seeds with other bytes, and seeds with other fields."""
    seeds = list(reader.seeds())
    assert len(set(seeds)) > 2, "a fuzzer needs something to begin with"
    yield from seeds
    change = partial(FUZZ["changed"], reader.parts, lambda content, _: damage(content, rng))
    for _ in range(INPUTS):
        data = rng.choice([*seeds, rng.randbytes(rng.randrange(100))])
        for _ in range(rng.randrange(4)):
            data = change(data, 20_000, rng.randrange(2**32))
        yield data


@pytest.mark.parametrize("name", FUZZ["READERS"])
def test_a_reader_takes_whatever_comes(name):
    reader = load(name)
    for data in inputs(reader, random.Random(name)):
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
