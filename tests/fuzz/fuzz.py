"""Fuzzes what reads requests: `python tests/fuzz/fuzz.py READER [libFuzzer's options]`.

A reader is a file in `readers/`: its `seeds()` are inputs to begin with, its `read(data)` raises
nothing, whatever the bytes. By default a run takes two minutes, ends at an input that takes 10 s or
1 GiB, and keeps what it found in build/fuzz/READER, where the next one goes on.

It runs with atheris, which is no dependency of foretell: pip install atheris.
"""

import hashlib
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "readers"
FOUND = Path(__file__).resolve().parents[2] / "build" / "fuzz"
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
    atheris.Setup(
        [name, *OPTIONS, f"-artifact_prefix={FOUND / name}-", *options, str(corpus)],
        reader["read"],
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
