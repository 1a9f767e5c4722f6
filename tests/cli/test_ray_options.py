"""`--ray [ADDRESS]` and what may stand beside it."""

import sys

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


def test_without_ray_the_extra_is_named(foretell, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("cluster", "doors", "workers"):
        monkeypatch.delitem(sys.modules, f"foretell.jobs.ray.{name}", raising=False)
    ended = foretell("translate", "in", "--model", "m", "--output", "o", "--ray")
    assert ended.code == 1
    assert "ray is not installed; pip install 'foretell[ray]'" in ended.err
