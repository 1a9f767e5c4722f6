"""The README is the first thing that anybody tries: what it says must work as it stands."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FORETELL = [sys.executable, "-m", "foretell.cli.main"]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    lines = [line for block in blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("foretell")]


@pytest.fixture
def house(bundle_path, translator_bundle_path, tmp_path):
    """What the README takes for granted: sales.csv, in.txt, models/demand/1, models/ende/1."""
    shutil.copytree(bundle_path, tmp_path / "models" / "demand" / "1")
    shutil.copytree(translator_bundle_path, tmp_path / "models" / "ende" / "1")
    (tmp_path / "in.txt").write_text("twenty one\nthree hundred and five\n")
    days = pd.date_range("2024-01-01", periods=90)
    tables = [pd.DataFrame({"unique_id": i, "ds": days, "y": range(90)}) for i in ("007", "7")]
    pd.concat(tables).to_csv(tmp_path / "sales.csv", index=False)
    return tmp_path


@pytest.fixture
def address(house):
    serve = [*FORETELL, "serve", "models", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, cwd=house, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = next(line for line in server.stderr if "listening on " in line)
            yield line.split("listening on ")[1].strip()
        finally:
            server.terminate()


def test_the_three_doors_open_and_give_the_same_numbers(house, address):
    for name in ("forecast", "translate"):
        job = next(command for command in commands() if command[0] == name)
        subprocess.run([*FORETELL, *job], cwd=house, check=True, capture_output=True)
    script = "\n".join(blocks("python")).replace("localhost:8001", address)
    script += (
        "\nassert over_grpc.equals(in_process)"
        "\nassert over_grpc.columns.tolist()[2:] == ['forecast', 'q0.1', 'q0.5', 'q0.9']"
        "\nassert set(answers['unique_id']) == {'7'}"
        "\nwritten = pd.read_parquet('out.parquet')"
        "\nassert written.equals(in_process.astype(written.dtypes))"
        "\nassert [(a.text, a.score) for a in there] == [(a.text, a.score) for a in here]"
        "\nassert open('out.txt').read() == ''.join(f'{answer.text}\\n' for answer in here)"
        "\nassert 1 <= len(best[0].hypotheses) <= 3"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=house,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "007" in done.stdout


def test_every_target_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), flags=re.MULTILINE)
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)
