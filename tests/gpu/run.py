"""All checks of a GPU in one run, in less than 8 minutes; see README.md beside this file.

    python tests/gpu/run.py --path UNPACKED_ONNXRUNTIME_GPU --output report.md

It needs neither pytest nor an installed foretell. Exit code 0: all held or was skipped, with its
reason; 1: something failed; 2: something is missing.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import checkout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks, then the tables; write a report."""
    options = _options(arguments)
    began = time.monotonic()
    missing = checkout.prepare(options.path, exports=options.bundles is None)
    if missing:
        sys.stderr.write(
            f"missing: {', '.join(missing)}. Give --path a folder in which they are unpacked "
            "(and --bundles, made by models.py elsewhere, where nothing can be exported).\n"
        )
        return 2
    report = Report(options.output)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.bundles
        if folder is None:
            import models

            folder = Path(scratch)
            models.make(folder, tiny=options.tiny)
            report.tell(f"bundles were made in {time.monotonic() - began:.0f} s")
        _run(options, folder, report, began)
    report.tell(f"\n{report.failed} failed; {time.monotonic() - began:.0f} s in all")
    return 1 if report.failed else 0


class Report:
    """Prints what is found as it is found, and keeps it in a file: a killed run tells its part."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._text = ""
        self.failed = 0

    def tell(self, *lines: str) -> None:
        """Add lines."""
        text = "\n".join(lines) + "\n"
        sys.stdout.write(text)
        sys.stdout.flush()
        self._text += text
        if self._path is not None:
            self._path.write_text(self._text)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--path", type=Path, action="append", default=[], help="folder of unpacked wheels; again"
    )
    parser.add_argument("--bundles", type=Path, help="folder that models.py wrote")
    parser.add_argument("--tiny", action="store_true", help="make no large models")
    parser.add_argument("--no-speed", action="store_true", help="leave the tables of speed out")
    parser.add_argument("--most-s", type=float, default=330.0, help="begin nothing after so long")
    parser.add_argument("--output", type=Path, help="where the report is written, too")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, folder: Path, report: Report, began: float) -> None:
    import checks
    import onnxruntime
    import speed
    import torch
    from machine import Machine

    report.tell(
        f"# foretell on {options.device}",
        "",
        f"python {sys.version.split()[0]}, torch {torch.__version__}, onnxruntime "
        f"{onnxruntime.__version__} at {Path(onnxruntime.__file__).parent}",
    )
    machine = Machine(options.device, folder)
    for work in (*checks.CHECKS, *(() if options.no_speed else speed.TABLES)):
        if time.monotonic() - began > options.most_s:
            report.tell("", f"## {_name(work)}: skipped, the time is over")
        else:
            _one(work, machine, report)


def _one(work: Callable[..., list[str]], machine: object, report: Report) -> None:
    from machine import Skip

    began = time.monotonic()
    try:
        lines = work(machine)
    except Skip as reason:
        report.tell("", f"## {_name(work)}: skipped, {reason}")
    except Exception:  # the other checks are worth their minute, too
        report.failed += 1
        report.tell("", f"## {_name(work)}: FAILED", "", "```", traceback.format_exc() + "```")
    else:
        report.tell("", f"## {_name(work)} ({time.monotonic() - began:.1f} s)", "", *lines)


def _name(work: Callable[..., object]) -> str:
    return work.__name__.replace("_", " ")


if __name__ == "__main__":
    sys.exit(main())
