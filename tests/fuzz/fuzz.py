"""Fuzzes what reads requests: `python tests/fuzz/fuzz.py READER [libFuzzer's options]`.

A reader is a file in `readers/`: its `seeds()` are inputs to begin with, its `read(data)` raises
nothing, whatever the bytes, and by its `parts(data)` inputs are changed by their fields. By default
a run takes two minutes, ends at an input that takes 10 s or 1 GiB, and keeps what it found in
build/fuzz/READER, where the next one goes on.

It runs with atheris, which is no dependency of foretell: pip install atheris.
"""

import hashlib
import random
import runpy
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

FOLDER = Path(__file__).resolve().parent / "readers"
FOUND = Path(__file__).resolve().parents[2] / "build" / "fuzz"
mutate = runpy.run_path(str(FOLDER.with_name("mutation.py")))["mutate"]
READERS = sorted(file.stem for file in FOLDER.glob("*.py"))
OPTIONS = ("-max_total_time=120", "-timeout=10", "-rss_limit_mb=1024", "-max_len=20000")


def main(arguments: list[str]) -> None:
    """Fuzz the reader that is named first; the other arguments are libFuzzer's own."""
    if not arguments or arguments[0] not in READERS:
        raise SystemExit(f"name a reader: {' '.join(READERS)}")
    try:
        import atheris
    except ImportError as error:
        raise SystemExit("this needs atheris; install it: pip install atheris") from error

    name, *options = arguments
    with atheris.instrument_imports(include=["foretell"]):
        reader = runpy.run_path(str(FOLDER / f"{name}.py"))
    corpus = FOUND / name
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in reader["seeds"]():
        (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)

    def change(content: bytes, most: int) -> bytes:
        return bytes(atheris.Mutate(content, most))  # another one than before `Fuzz`

    atheris.Setup(
        [name, *OPTIONS, f"-artifact_prefix={FOUND / name}-", *options, str(corpus)],
        reader["read"],
        custom_mutator=partial(changed, reader["parts"], change),
    )
    atheris.Fuzz()


def changed(
    parts: Callable[[bytes], tuple[bytes, Any]],
    change: Callable[[bytes, int], bytes],
    data: bytes,
    most: int,
    seed: int,
) -> bytes:
    """Change an input: its bytes as they are, or a few fields of its message.

    Args:
        parts: What stands before the message, and the message.
        change: Changes bytes, up to so many.
        data: The input.
        most: Its most bytes afterwards.
        seed: Of what is chosen.
    """
    rng = random.Random(seed)
    try:
        before, message = parts(data)
    except (DecodeError, IndexError):
        return change(data, most)
    if rng.random() < 0.2:
        return change(data, most)
    for _ in range(rng.choice([1, 1, 2, 4])):
        mutate(message, rng, lambda content: change(content, len(content) + 20))
    found = before + message.SerializeToString()
    return found if len(found) <= most else data


if __name__ == "__main__":
    main(sys.argv[1:])
