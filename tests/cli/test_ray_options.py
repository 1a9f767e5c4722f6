"""`--ray [ADDRESS]` and what may stand beside it."""

import os
import re
import sys
from pathlib import Path

import pytest

from foretell.cli.ray_options import with_address


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["--ray"], ["--ray", "local"]),
        (["--ray", "--num-workers", "2"], ["--ray", "local", "--num-workers", "2"]),
        (["in.csv", "--ray", "auto", "-x"], ["in.csv", "--ray", "auto", "-x"]),
        (["--ray", "head:6379"], ["--ray", "head:6379"]),
        (["--ray", "--ray"], ["--ray", "local", "--ray", "local"]),
        (["--array", "ray"], ["--array", "ray"]),
    ],
)
def test_an_address_may_be_left_out(given, parsed):
    assert with_address(given) == parsed


@pytest.mark.parametrize("command", [["forecast", "in", "--horizon", "3"], ["translate", "in"]])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-workers", "2", "--output", "o.csv"], "--num-workers counts workers on Ray"),
        (["--ray"], "the answer goes to a file; give --output FILE"),
        (["--ray", "--output", "o.csv", "--server", "a:1"], "give it or --server"),
        (
            ["--ray", "a:1", "--output", "o.csv", "--num-workers", "0"],
            "Invalid value for '--num-workers'",
        ),
    ],
)
def test_what_contradicts_is_refused(foretell, command, options, message):
    ended = foretell(*command, "--model", "m", *options)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "--ray", "in.txt", "--model", "m", "--output", "out.txt"],
        ["translate", "in.txt", "--ray=in.txt", "--model", "m", "--output", "out.txt"],
        ["forecast", "--horizon", "3", "--ray", "in.txt", "--output", "out.csv"],
    ],
)
def test_an_input_that_was_taken_for_the_address_is_told(foretell, arguments):
    """Else the input would be missing, though it was given."""
    ended = foretell(*arguments)
    assert ended.code == 2
    assert ended.err.startswith("error: --ray in.txt: that is no address of a cluster; expected")
    assert "give --ray last, or before another option" in ended.err


@pytest.mark.parametrize(
    ("address", "code", "told"),
    [
        ("127.0.0.1:1", 1, r"there is no Ray cluster at 127\.0\.0\.1:1 \(.*refused\)"),
        ("127.0.0.1:99999", 2, "127.0.0.1:99999 is no HOST:PORT"),
        ("head:port", 2, "head:port is no HOST:PORT; give that of the cluster's head"),
        ("ray://head:10001", 2, "ray://head:10001 is no HOST:PORT"),
    ],
)
def test_a_cluster_that_is_away_is_no_wrong_usage(
    foretell, translator_bundle_path, address, code, told
):
    """Whoever tries again by the exit code may: the command is right, the cluster isn't there."""
    pytest.importorskip("ray", reason="the extra [ray] is not installed")
    Path("in.txt").write_text("seven\n")
    options = ["--model", translator_bundle_path, "--output", "out.txt", "--ray", address]
    ended = foretell("translate", "in.txt", *options)
    assert (ended.code, bool(re.search(told, ended.err))) == (code, True), ended.err
    assert os.listdir() == ["in.txt"]


def test_without_ray_the_extra_is_named(foretell, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("cluster", "doors", "workers"):
        monkeypatch.delitem(sys.modules, f"foretell.jobs.ray.{name}", raising=False)
    ended = foretell("translate", "in", "--model", "m", "--output", "o", "--ray")
    assert ended.code == 1
    assert "ray is not installed; pip install 'foretell[ray]'" in ended.err
