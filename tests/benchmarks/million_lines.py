"""A million lines through `foretell translate`: every way the same bytes, in the same memory.

`python tests/benchmarks/million_lines.py --folder FOLDER` writes random number words, a line each,
and translates them with a tiny model, in a process a run: a tenth of them, all, in smaller and in
larger chunks, packed, through a server of this machine, and once more with signal 9 at three random
moments. It asserts the number of lines, one SHA-256 for all runs, and memory that doesn't grow.
"""

import argparse
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from live_server import LiveServer, fill_models, tests_bundle

from foretell.data.text.number_words import LARGEST_NUMBER, english_words

RESULT = Path(__file__).with_suffix(".json")
COMMAND = [sys.executable, "-m", "foretell.cli.main", "translate"]
KILLS = 3
MOST_GROWTH_MIB = 48.0  # between a tenth of the lines and all


@dataclass(frozen=True)
class Ended:
    """A run that has ended.

    Attributes:
        name: What was special about it.
        code: Of its exit; negative where a signal ended it.
        wall_s: How long it took, its start included.
        cpu_s: Of all its threads.
        peak_mib: Most memory that it held.
        told: The last line that it wrote to standard error.
    """

    name: str
    code: int
    wall_s: float
    cpu_s: float
    peak_mib: float
    told: str


class Runs:
    """Runs of the command, over files of one folder.

    Attributes:
        ended: All that have ended.
    """

    def __init__(self, folder: Path, search: list[str]) -> None:
        self.ended: list[Ended] = []
        self._folder, self._search = folder, search

    def start(self, text: Path, output: Path, *words: str) -> subprocess.Popen[bytes]:
        command = [*COMMAND, str(text), "--output", str(output), *self._search, *words]
        with (self._folder / "stderr.txt").open("wb") as told:
            return subprocess.Popen(command, stderr=told)

    def end(self, name: str, process: subprocess.Popen[bytes], begun: float) -> Ended:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        told = (self._folder / "stderr.txt").read_text().strip().splitlines()
        ended = Ended(
            name=name,
            code=process.returncode,
            wall_s=round(time.perf_counter() - begun, 1),
            cpu_s=round(used.ru_utime + used.ru_stime, 1),
            peak_mib=round(used.ru_maxrss / 1024, 1),
            told=told[-1].split(" -> ")[0] if told else "",
        )
        self.ended.append(ended)
        print(json.dumps(asdict(ended)), file=sys.stderr, flush=True)
        return ended

    def whole(self, name: str, text: Path, output: Path, *words: str) -> Ended:
        begun = time.perf_counter()
        ended = self.end(name, self.start(text, output, *words), begun)
        assert ended.code == 0, ended.told
        return ended

    def killed(
        self, text: Path, output: Path, wall_s: float, seed: int, *words: str
    ) -> list[float]:
        """Kill a job at random moments, and have it go on each time; return the moments."""
        rng = random.Random(seed)
        moments: list[float] = []
        for number in range(KILLS):
            begun = time.perf_counter()
            process = self.start(text, output, "--resume", *words)
            try:
                process.wait(rng.uniform(0.1, 0.9) * wall_s / KILLS)
            except subprocess.TimeoutExpired:
                process.kill()
                moments.append(round(time.perf_counter() - begun, 1))
            self.end(f"killed {number + 1}", process, begun)
            assert process.returncode == -9, "it ended before it was killed"
            assert not output.exists(), "nothing stands there before the end"
        self.whole("resumed", text, output, "--resume", *words)
        return moments


def make_text(path: Path, num_lines: int, seed: int) -> Path:
    """Write number words, a line each; the same for the same seed."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(num_lines):
            file.write(f"{english_words(rng.randint(0, LARGEST_NUMBER))}\n")
    return path


def digest(path: Path) -> str:
    """Hash the text in a file, packed or not."""
    hashed = hashlib.sha256()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


@contextmanager
def served(folder: Path, model: Path) -> Iterator[str]:
    models = folder / "models"
    if not models.exists():
        fill_models(models, numbers=model)
    with LiveServer(models, "--device", "cpu") as server:
        yield server.address


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    """Run everything, and see that all is as it must be."""
    folder, lines, model = arguments.folder, arguments.lines, arguments.model
    text = make_text(folder / "in.txt", lines, arguments.seed)
    tenth = make_text(folder / "tenth.txt", lines // 10, arguments.seed)
    search = ["--beam-size", str(arguments.beam_size), "--overwrite"]
    runs = Runs(folder, search)
    here = ["--model", str(model), "--device", "cpu", "--threads", str(arguments.threads)]
    small = runs.whole("a tenth", tenth, folder / "tenth.out", *here)
    plain = runs.whole("all", text, folder / "out.txt", *here)
    outputs = [folder / "out.txt"]
    others = {
        "chunks of 100": ("chunks-100.txt", [*here, "--chunk-lines", "100"]),
        "chunks of 5,000": ("chunks-5000.txt", [*here, "--chunk-lines", "5000"]),
        "packed": ("out.txt.gz", here),
    }
    for name, (output, words) in others.items():
        runs.whole(name, text, folder / output, *words)
        outputs.append(folder / output)
    with ExitStack() as stack:
        address = stack.enter_context(served(folder, model))
        runs.whole("server", text, folder / "served.txt", "--server", address)
        outputs.append(folder / "served.txt")
    moments = runs.killed(text, folder / "killed.txt", plain.wall_s, arguments.seed, *here)
    outputs.append(folder / "killed.txt")
    assert count_lines(folder / "out.txt") == lines
    digests = {path.name: digest(path) for path in outputs}
    assert len(set(digests.values())) == 1, digests
    growth_mib = plain.peak_mib - small.peak_mib
    assert growth_mib < MOST_GROWTH_MIB, f"{growth_mib} MiB more for ten times the lines"
    return {
        "lines": lines,
        "beam_size": arguments.beam_size,
        "threads": arguments.threads,
        "sha256": digests["out.txt"],
        "growth_mib": round(growth_mib, 1),
        "killed_after_s": moments,
        "runs": [asdict(ended) for ended in runs.ended],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for the files; 1 GB")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a bundle; by default the tests' Transformer")
    parser.add_argument("--seed", type=int, default=0, help="of the text and of the kills")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.name}")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    arguments.model = arguments.model or tests_bundle("transformer")
    found = measure(arguments)
    print("all bytes the same, all lines there, memory flat")
    if arguments.write:
        RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
