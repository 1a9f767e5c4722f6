"""Every flag of `foretell serve` arrives where the server reads it; elsewhere some were ignored."""

import re

import pytest
import typer

from foretell.cli.main import app
from foretell.server import serve as module
from foretell.server.application import Ending

FLAGS = [
    parameter
    for parameter in typer.main.get_command(app).commands["serve"].params
    if parameter.param_type_name == "option" and parameter.name != "help"
]
# Another value than the default, where one more isn't it; and what must stand beside it.
OTHER = {
    "listen": "127.0.0.2:0",
    "metrics": "127.0.0.3:0",
    "log_format": "json",
    "log_calls": "all",
    "trace_endpoint": "http://127.0.0.1:4317",
    "compressed_requests": "refuse",
    "device": "cpu",
    "threads": "3",
    "instances": "5",
    "model_control": "poll",
    "pin": "demand=7",
    "max_horizon": "77",
    "max_beam_size": "7",
}
BESIDE = {
    "tls_cert": ["--tls-key", "given.pem"],
    "tls_key": ["--tls-cert", "given.pem"],
    "tls_client_ca": ["--tls-key", "given.pem", "--tls-cert", "given.pem"],
    "health_needs_token": ["--tokens", "given.txt"],
}


@pytest.fixture
def start(foretell, monkeypatch):
    """Run the command up to where it would load models; what it would serve, and how."""

    def run(*arguments):
        seen = []

        def note(models, options, *_):
            seen.extend((models.path, models.control, models.load.keywords, options))
            return Ending.CLEAN

        monkeypatch.setattr(module, "_serve_alone", note)
        monkeypatch.setattr(module, "_serve_workers", note)
        monkeypatch.setattr(module, "log_to_stderr", lambda *given: seen.append(given))
        ended = foretell("serve", "models", "--listen", "127.0.0.1:0", *arguments)
        assert ended.code == 0, ended.err
        return seen

    return run


def other_value(flag):
    """What to write behind the flag, and how it looks where it arrives."""
    if isinstance(flag.default, bool):
        return [], f"{flag.name}={not flag.default}"
    value = OTHER.get(flag.name)
    if value is None and isinstance(flag.default, int | float):
        value = str(flag.default + 1)
    value = value or "other.pem"
    arrives = str(int(value) * 2**20) if flag.name.endswith("_mib") else value.rpartition("=")[2]
    return [value], arrives


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_a_flag_arrives(start, flag):
    written, arrives = other_value(flag)
    name = flag.secondary_opts[0] if flag.secondary_opts else flag.opts[0]
    given = re.compile(rf"(?<![\w.]){re.escape(arrives)}(?![\w.])")
    beside = BESIDE.get(flag.name, [])
    assert given.search(repr(start(*beside, name, *written)))
    assert not given.search(repr(start(*(beside if flag.name == "health_needs_token" else []))))
