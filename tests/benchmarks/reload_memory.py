"""Does memory stay flat while a server's model is replaced again and again?

    python tests/benchmarks/reload_memory.py models/demand/1 [RELOADS]

Serves the bundle, asks for an answer, puts the next version in its place, and again; prints the
process's memory, and how many threads and models it holds, and writes them to
`reload_memory.json`.
"""

import gc
import json
import shutil
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import pandas as pd

from foretell.client import Client
from foretell.data.bundles.bundle import read_manifest
from foretell.runtime import Forecaster, Translator
from foretell.server.background import serve_in_background
from foretell.server.models.loading import load_warm
from foretell.server.models.repository import ModelControl, Repository

_IDLE_S = 15.0


def ask(client: Client, kind: str) -> None:
    """Ask for one answer."""
    if kind == "translator":
        client.translate(["one", "twenty one"])
        return
    stamps = pd.date_range("2024-01-01", periods=60)
    client.forecast(pd.DataFrame({"unique_id": "a", "ds": stamps, "y": range(60)}), horizon=7)


def memory_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def count_models() -> int:
    """Models that are in memory."""
    return sum(isinstance(thing, Forecaster | Translator) for thing in gc.get_objects())


def look(reloads: int) -> dict[str, object]:
    """Measure, and print."""
    row: dict[str, object] = {
        "reloads": reloads,
        "memory_mib": round(memory_mib(), 1),
        "models": count_models(),
        "threads": threading.active_count(),
    }
    print(row, flush=True)
    return row


def wait_until_one_is_left(client: Client) -> None:
    """Wait until the replaced version is gone."""
    while len(client.models()) > 1:
        time.sleep(0.05)


def main(bundle: Path, reloads: int) -> None:
    """Replace the model so many times."""
    kind = read_manifest(bundle).kind
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder)
        shutil.copytree(bundle, models / "model" / "1")
        load = partial(load_warm, device="cpu", threads=1)
        repository = Repository.load(
            models, load, control=ModelControl(mode="explicit"), keep_s=0.0
        )
        with serve_in_background(repository) as address, Client(address) as client:
            for version in range(1, reloads + 1):
                ask(client, kind)
                shutil.copytree(bundle, models / "model" / str(version + 1))
                client.load_model("model", version + 1)
                ask(client, kind)
                wait_until_one_is_left(client)
                shutil.rmtree(models / "model" / str(version))
                if version % 10 == 0 or version == 1:
                    rows.append(look(version))
            time.sleep(_IDLE_S)  # a model's threads stay for a while when they have no work
            rows.append(look(reloads))
    target = Path(__file__).with_suffix(".json")
    results = json.loads(target.read_text()) if target.exists() else {}
    results[kind] = rows
    target.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
