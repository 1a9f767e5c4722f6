"""What is lost when servers are killed, stopped, fed damaged models, or left by their clients?

`python tests/benchmarks/serving_chaos.py` does all that to real `foretell serve` processes under
load, and counts: every answer that arrives is compared with the known one, bit by bit. The models
are the tests' tiny ones, or `--forecaster`, `--translator` and `--next-translator`, the last of
which takes the place of the one before (all without covariates). `--only PART` runs the scenarios
whose names hold it. Prints a table, writes JSON with `--output`; exit code 1 if anything was lost
or wrong.

The clock that jumps is the server's alone: a small library, compiled from `jumping_clock.c` where
there is a C compiler, moves what the process sees of the wall clock, and wakes what waits for it.
The machine's clock is never set; what the kernel itself does then (to timers of the wall clock, of
which the server has none) is not covered.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from chaos_scenarios import (
    GOOD_VERSION,
    Chaos,
    Outcome,
    corrupt_versions,
    jump_the_clock,
    kill_workers,
    restart_in_turn,
    stop_under_load,
    vanish,
)
from known_answers import questions
from live_server import fill_models, tests_bundle
from unwelcome_calls import late_calls

Scenario = Callable[[Chaos], Awaitable[Outcome]]

SCENARIOS: dict[str, Scenario] = {
    "kill": kill_workers,
    "term": stop_under_load,
    "restart": restart_in_turn,
    "corrupt-1": partial(corrupt_versions, workers=1),
    "corrupt-2": partial(corrupt_versions, workers=2),
    "clock": lambda chaos: jump_the_clock(chaos, late_calls()),
    "vanish": vanish,
}


def main() -> None:
    """Do it all, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forecaster", type=Path, help="a bundle; else a tiny one of the tests")
    parser.add_argument("--translator", type=Path, help="a bundle; else a tiny one of the tests")
    parser.add_argument("--next-translator", type=Path, help="a bundle; else a tiny one, a GRU")
    parser.add_argument("--times", type=int, default=7, help="kills, restarts, jumps")
    parser.add_argument("--clients", type=int, default=1000, help="that vanish")
    parser.add_argument("--only", default="", help=f"part of: {', '.join(SCENARIOS)}")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    forecaster = arguments.forecaster or tests_bundle("any")
    translator = arguments.translator or tests_bundle("transformer")
    follower = arguments.next_translator or tests_bundle("recurrent")
    print("computing the answers beforehand ...", flush=True)
    asked = questions(
        forecasters={1: forecaster}, translators={1: translator, GOOD_VERSION: follower}
    )
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        chaos = Chaos(
            models=fill_models(scratch / "models", demand=forecaster, ende=translator),
            asked=asked,
            bundle=follower,
            scratch=scratch,
            times=arguments.times,
            clients=arguments.clients,
        )
        for name, scenario in SCENARIOS.items():
            if arguments.only in name:
                print(f"{name} ...", flush=True)
                outcomes.append(asyncio.run(scenario(chaos)))
                print(f"   {outcomes[-1].details}", flush=True)
    report(outcomes)
    if arguments.output:
        arguments.output.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n")
    sys.exit(0 if all(one.is_good for one in outcomes) else 1)


def report(outcomes: list[Outcome]) -> None:
    """Print a row a scenario."""
    print(f"\n{'scenario':32} {'right':>8} {'wrong':>6} {'lost':>5}  done; calls that failed")
    for one in outcomes:
        failed = ", ".join(f"{code} {count}" for code, count in sorted(one.codes.items()))
        print(
            f"{one.scenario:32} {one.right:8,} {one.wrong:6} {one.lost:5}  {one.done}; "
            f"{failed or 'none'}"
        )
        for problem in one.problems:
            print(f"   NOT AS IT SHOULD BE: {problem}")


if __name__ == "__main__":
    main()
