"""What is read at night by who is on call is true: flags and defaults, metrics, names of tests."""

import ast
import re
from pathlib import Path

import pytest
import typer

from foretell.cli.main import app
from foretell.server.http.metrics import Metrics
from foretell.server.models.repository import State
from foretell.server.telemetry.observing import Observer

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "server"
PAGES = ("README.md", "INSIDE.md", "INFERENCE.md", "OPERATING.md", "FAULTS.md")
OPTIONS = {
    name: option
    for option in typer.main.get_command(app).commands["serve"].params
    if option.param_type_name == "option" and option.name != "help"
    for name in (*option.opts, *option.secondary_opts)
}
ROW = r"^\| (`--[^|]+(?:\\\|[^|]+)*) \| ([^|]+) \| ([^|]+(?:\\\|[^|]+)*) \|$"


def told():
    """Flags of the tables that have a column of defaults: what stands in it, and the reason."""
    flags = {}
    for table in re.findall(
        r"^\| flag \| default \|.*\n\|[-|]+\n((?:\|.*\n)+)",
        (SERVER / "README.md").read_text(),
        re.M,
    ):
        for line in table.splitlines():
            cells, default, reason = re.match(ROW, line).groups()
            for flag in re.findall(r"--[a-z-]+", cells):
                assert flag not in flags, f"{flag} stands in two tables"
                flags[flag] = default, reason
    return flags


def test_every_flag_of_the_command_stands_on_the_page_and_no_other():
    flags = told()
    assert flags.keys() <= OPTIONS.keys()
    silent = {
        option.opts[0]
        for option in OPTIONS.values()
        if not flags.keys() & {*option.opts, *option.secondary_opts}
    }
    assert not silent, f"server/README.md doesn't tell of {silent}"


@pytest.mark.parametrize("flag", sorted(told()))
def test_a_default_is_the_commands_and_has_a_reason(flag):
    default, reason = told()[flag]
    found = OPTIONS[flag].default
    if isinstance(found, bool):
        # A flag that switches something off has what it switches off as its default.
        assert default == ("batching" if flag == "--no-batching" else "no")
    elif isinstance(found, int | float):
        assert float(default.split()[0].strip(",").replace(",", "")) == found
    elif found in (None, ""):
        assert default in {"none", "the allowed cores", "the model's threads"}
    else:
        assert default == f"`{found}`"
    assert len(reason.split()) > 2


@pytest.mark.parametrize("page", PAGES)
def test_flags_of_a_page_are_real(page):
    text = (SERVER / page).read_text()
    others = {"--tokens", "--revision"}  # of `foretell token`, and of `kubectl`
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert not named - OPTIONS.keys() - others


@pytest.mark.parametrize("page", ["README.md", "OPERATING.md"])
def test_metrics_of_a_page_are_told_by_a_server(page):
    """An alert on a number that nobody counts never comes."""
    written = Metrics(Observer(), lambda: ()).write().decode()
    known = set(re.findall(r"^# TYPE (\w+) ", written, re.M))
    named = set(
        re.findall(r"\b(?:nv|foretell|grpc_server)_\w+(?=[`{\[ ])", (SERVER / page).read_text())
    )
    named = {name for name in named if not name.endswith("_")}  # several in braces
    assert len(named) > 5
    assert not named - known - {f"{name}_total" for name in known}
    states = set(re.findall(r'state="(\w+)"', (SERVER / page).read_text()))
    assert states <= {state.value for state in State}


def names_of(path):
    """Tests of a file, those in classes by their own name."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_fault_has_a_test_that_there_is_or_a_reason():
    rows = re.findall(
        r"^\| (\d+) \| (.+) \| (.+) \| (.+) \| (.+) \|$", (SERVER / "FAULTS.md").read_text(), re.M
    )
    assert [int(row[0]) for row in rows] == list(range(1, 59))
    missing = []
    for number, _, _, _, proof in rows:
        tests = re.findall(r"`([\w/]+\.py)::(\w+)`", proof)
        assert tests or len(proof.split()) > 3, f"fault {number} has neither test nor reason"
        for file, name in tests:
            path = ROOT / "tests" / file
            if not path.is_file() or name not in names_of(path):
                missing.append(f"{number}: {file}::{name}")
    assert not missing, f"server/FAULTS.md names tests that there aren't: {missing}"
