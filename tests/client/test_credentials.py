"""What a client shows: tokens and certificates, checked before a call, and told in no message."""

import asyncio
import hashlib
import pickle
from contextlib import contextmanager

import pytest

from foretell.client import AsyncClient, Client, Credentials, RemoteError
from foretell.data.errors import OptionError
from foretell.data.text.translation import TranslateOptions
from foretell.jobs.lines.remote_door import remote_translator
from foretell.jobs.tables.remote_door import remote_door
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions
from foretell.server.security import SecurityOptions

TOKEN = "s3cret-of.the~house"
FILES = {"ca": "ca.pem", "cert": "mine.pem", "key": "mine.key"}


@pytest.fixture
def secured(make_forecaster, make_translator):
    @contextmanager
    def serve(**security):
        options = ServerOptions(listen="127.0.0.1:0", security=SecurityOptions(**security))
        models = [Model("demand", 1, make_forecaster()), Model("ende", 1, make_translator())]
        with serve_in_background(Repository(models), options) as address:
            yield address

    return serve


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"me {hashlib.sha256(TOKEN.encode()).hexdigest()} inference\n")
    return path


@pytest.fixture
def authority(make_authority, tmp_path):
    return make_authority(tmp_path)


def test_every_call_shows_the_token(secured, token_file, call):
    with secured(tokens=token_file) as address:
        mine = {"token": TOKEN}
        assert call(address, "describe", "ende", options=mine).kind == "translator"
        assert len(call(address, "translate", ["one"] * 300, model="ende", options=mine)) == 300
        assert call(address, "translate_stream", "one", model="ende", options=mine)
        assert call(address, "score", [("one", "eins")], model="ende", options=mine)


@pytest.mark.parametrize(("token", "advice"), [(None, "token="), ("other", "token=")])
def test_without_a_good_token_a_call_says_what_to_give(secured, token_file, call, token, advice):
    with secured(tokens=token_file) as address:
        for method, *arguments in (
            ("describe", "ende"),
            ("translate", ["one"]),
            ("translate_stream", "one"),
        ):
            with pytest.raises(RemoteError, match=advice) as caught:
                call(address, method, *arguments, options={"token": token})
            assert caught.value.code == "UNAUTHENTICATED"
            assert "other" not in str(caught.value)


def test_what_a_token_may_not_do_is_a_remote_error(secured, token_file, call):
    with secured(tokens=token_file) as address, pytest.raises(RemoteError) as caught:
        call(address, "models", options={"token": TOKEN})
    assert caught.value.code == "PERMISSION_DENIED"
    assert TOKEN not in str(caught.value)


def test_tls_and_mutual_tls(secured, authority, call):
    server, client = authority.sign("server"), authority.sign("client")
    security = {"tls_cert": server.cert, "tls_key": server.key}
    with secured(**security) as address:
        assert len(call(address, "models", options={"ca": authority.cert})) == 2
    with secured(**security, tls_client_ca=authority.cert) as address:
        mine = {"ca": str(authority.cert), "cert": client.cert, "key": client.key}
        assert len(call(address, "models", options=mine)) == 2
        with pytest.raises(RemoteError) as caught:
            call(address, "models", options={"ca": authority.cert})
        assert caught.value.code == "UNAVAILABLE"


def test_a_server_of_another_authority_or_in_clear_is_not_believed(
    secured, authority, make_authority, tmp_path, call
):
    server, stranger = authority.sign("server"), make_authority(tmp_path, "stranger")
    with secured(tls_cert=server.cert, tls_key=server.key) as address:
        for options in ({"ca": stranger.cert}, {}, {"credentials": Credentials(tls=True)}):
            with pytest.raises(RemoteError, match="both sides talk TLS") as caught:
                call(address, "models", options=options)
            assert caught.value.code == "UNAVAILABLE"


def test_a_name_of_the_certificate_may_differ_from_the_address(secured, authority, call):
    server = authority.sign("server")
    with secured(tls_cert=server.cert, tls_key=server.key) as address:
        named = Credentials(ca=authority.cert, server_name="localhost")
        assert len(call(address, "models", options={"credentials": named})) == 2
        other = Credentials(ca=authority.cert, server_name="somewhere.test")
        with pytest.raises(RemoteError):
            call(address, "models", options={"credentials": other})


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("target", ["models.test:8001", "192.0.2.1:8001", "0.0.0.0:8001"])
def test_a_token_never_goes_to_another_machine_in_clear(kind, target):
    with pytest.raises(OptionError, match="in clear, where others can read it") as caught:
        kind(target, token=TOKEN)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "target", ["127.0.0.1:1", "localhost:1", "[::1]:1", "ipv4:127.0.0.2:1", "unix:/run/foretell"]
)
def test_a_token_may_go_to_this_machine_in_clear(target):
    Client(target, token=TOKEN).close()


def test_a_token_may_go_in_clear_where_it_is_said_to():
    credentials = Credentials(token=TOKEN, clear_token=True)
    Client("models.test:8001", credentials=credentials).close()


@pytest.mark.parametrize("token", ["", "a b", "a\n", "é", 5, b"bytes", "x" * 5000])
def test_what_is_no_token_is_told_and_not_shown(token):
    """A line break at the end of a file is the common one; gRPC would only say: metadata."""
    with pytest.raises(OptionError, match="the token is none") as caught:
        Credentials(token=token)
    assert repr(token) not in str(caught.value)


def test_credentials_show_no_token():
    assert TOKEN not in repr(Credentials(token=TOKEN))
    assert pickle.loads(pickle.dumps(Credentials(token=TOKEN))).token == TOKEN


def test_contradictions_are_all_told():
    with pytest.raises(OptionError) as caught:
        Credentials(token="", cert="a", tls=False)
    assert len(caught.value.problems) == 3
    with pytest.raises(OptionError, match="server_name is given without TLS"):
        Credentials(server_name="a")
    with pytest.raises(OptionError, match="key is given without cert"):
        Credentials(key="a")
    with pytest.raises(OptionError, match="give one"):
        Client("localhost:1", token=TOKEN, credentials=Credentials())


def test_files_are_looked_at_before_any_call(authority, tmp_path):
    """gRPC says of a bad file only that it can't connect."""
    mine, other = authority.sign("mine"), authority.sign("other")
    with pytest.raises(OptionError) as caught:
        Client("localhost:1", **{name: tmp_path / file for name, file in FILES.items()})
    assert len(caught.value.problems) == 1  # mine.pem and mine.key are there
    with pytest.raises(OptionError, match=r"ca: .* holds no certificates"):
        Client("localhost:1", ca=mine.key)
    with pytest.raises(OptionError, match="no certificate with its private key"):
        Client("localhost:1", cert=mine.cert, key=other.key)


def test_the_environment_gives_credentials_too():
    """A token on a command line is seen by everybody on the machine."""
    assert Credentials.from_environment({}) == Credentials()
    assert Credentials.from_environment(
        {"FORETELL_TOKEN": TOKEN, "FORETELL_CA": "ca.pem", "FORETELL_CERT": "", "FORETELL_TLS": "1"}
    ) == Credentials(token=TOKEN, ca="ca.pem", tls=True)
    with pytest.raises(OptionError, match="FORETELL_TLS is neither 1 nor 0"):
        Credentials.from_environment({"FORETELL_TLS": "yes"})


def test_commands_take_the_environments_credentials(secured, token_file, monkeypatch):
    with secured(tokens=token_file) as address:
        monkeypatch.setenv("FORETELL_TOKEN", TOKEN)
        with remote_door(address, model="demand") as door:
            assert door.where.startswith("demand version 1")
        with remote_translator(address, model="ende") as door:
            assert len(door.translate(["one"], TranslateOptions())) == 1
        monkeypatch.delenv("FORETELL_TOKEN")
        with pytest.raises(RemoteError, match="UNAUTHENTICATED"), remote_door(address):
            pass


def test_a_client_over_a_socket(make_forecaster, tmp_path):
    options = ServerOptions(listen=f"unix:{tmp_path}/socket")
    with serve_in_background(Repository([Model("demand", 1, make_forecaster())]), options) as at:
        with Client(at) as client:
            assert [model.name for model in client.models()] == ["demand"]

        async def ask():
            async with AsyncClient(at) as client:
                return await client.models()

        assert [model.name for model in asyncio.run(ask())] == ["demand"]
