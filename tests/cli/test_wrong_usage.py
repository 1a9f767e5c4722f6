"""What is wrong with options is told in the words that were typed, and ends with exit code 2."""

import re

import pytest
import typer

from foretell.cli.main import app
from foretell.jobs.lines.option_names import problem_as_options

OTHERS = {"help", "tokens", "batching"}  # flags, or words that texts begin with
SERVE = [
    parameter.opts[0].removeprefix("--").replace("-", "_")
    for parameter in typer.main.get_command(app).commands["serve"].params
    if parameter.param_type_name == "option" and parameter.name not in OTHERS
]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--metrics", "18002"], "--metrics is '18002'; expected HOST:PORT,.* next, or none"),
        (["--metrics", "127.0.0.1:99999"], "--metrics has port 99999; a port is 0 to 65535"),
        (["--listen", "foo"], "--listen is 'foo'; expected HOST:PORT,.* or unix:PATH"),
        (["--model-control", "all"], "--model-control is 'all'; expected"),
        (["--poll-s", "0"], "--poll-s is 0"),
        (["--pin", "demand"], "--pin is 'demand'; expected NAME=VERSION"),
        (
            ["--workers", "2", "--model-control", "explicit"],
            "--workers is 2, and --model-control is 'explicit'",
        ),
        (["--workers", "2", "--listen", "unix:x"], "--workers is 2, but processes can't share"),
    ],
)
def test_a_server_that_cannot_be_as_asked(foretell, arguments, told):
    ended = foretell("serve", "models", *arguments)
    assert ended.code == 2
    assert re.search(told, ended.err)


@pytest.mark.parametrize("name", SERVE)
def test_every_option_of_a_server_is_named_as_it_is_typed(name):
    name = name.replace("_mib", "_bytes")
    assert problem_as_options(f"{name} is 0.").startswith("--")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["a b"], "NAME is 'a b'"),
        (["a", "--groups", "foo"], "--groups is 'foo'; give some of inference"),
        (["a", "--until", "2027-01-31"], "--until is '2027-01-31'; give a time with its zone"),
        (["a", "--until", "2020-01-31T00:00:00Z"], "--until is .*, which is past"),
        (["there"], "has a token for there already; take another name .* such as there-2"),
    ],
)
def test_a_token_that_cannot_be(foretell, arguments, told):
    assert foretell("token", "there", "--tokens", "tokens").code == 0
    ended = foretell("token", *arguments, "--tokens", "tokens")
    assert ended.code == 2
    assert re.search(told, ended.err)
    assert "line" not in ended.err.replace("take the old line out later", "")


def test_an_address_as_browsers_have_it(foretell, tmp_path):
    (tmp_path / "in.csv").write_text("unique_id,ds,y\na,2024-01-01,1\n")
    ended = foretell("forecast", "in.csv", "--horizon", 1, "--server", "http://localhost:8001")
    assert ended.code == 2
    assert "give HOST:PORT, without http://" in ended.err
