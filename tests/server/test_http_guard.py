"""The HTTP port is guarded as gRPC is: who may look at metrics and the status page, and how."""

import asyncio
import base64
import hashlib
import http.client
import os
import socket
import ssl
import threading
import time

import pytest

from foretell.server.access import reloading
from foretell.server.background import serve_in_background
from foretell.server.errors import UnauthenticatedError
from foretell.server.http.guard import HttpGuard
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions
from foretell.server.security import SecurityOptions

PAGES = ("/", "/metrics", "/status", "/status.json")
GROUPS = {"watcher": "metadata", "caller": "inference", "both": "inference,metadata"}


@pytest.fixture
def tokens(tmp_path):
    """A file of tokens, each the name of whom it was given to, reversed."""
    lines = [f"{name} {digest(name[::-1])} {groups}" for name, groups in GROUPS.items()]
    lines.append(f"late {digest('etal')} metadata 2020-01-01T00:00:00Z")
    file = tmp_path / "tokens"
    file.write_text("\n".join(lines))
    return file


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def serve(make_forecaster):
    """Serves a model with this security; yields the address of the HTTP port."""
    servers = []

    def serve(**security):
        addresses = []
        options = ServerOptions(
            listen="127.0.0.1:0", metrics="127.0.0.1:0", security=SecurityOptions(**security)
        )
        repository = Repository([Model("demand", 1, make_forecaster())])
        server = serve_in_background(repository, options, on_status=addresses.append)
        server.__enter__()
        servers.append(server)
        return addresses[0]

    yield serve
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture
def authority(make_authority, tmp_path):
    return make_authority(tmp_path)


def trusting(authority, client=None):
    context = ssl.create_default_context(cafile=authority.cert)
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    return context


def get(address, path, *, context=None, **headers):
    """Status, headers and text of a page."""
    connection = (
        http.client.HTTPConnection(address, timeout=20)
        if context is None
        else http.client.HTTPSConnection(address, timeout=20, context=context)
    )
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def status(address, path="/", **given):
    return get(address, path, **given)[0]


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("path", [*PAGES, "/nothing"])
def test_strangers_see_no_page_and_are_told_how_to_ask(serve, tokens, path):
    code, headers, text = get(serve(tokens=tokens), path)
    assert code == 401
    # The first one makes a browser ask its user; programs look for theirs.
    assert [one.split()[0] for one in headers.get_all("WWW-Authenticate")] == ["Basic", "Bearer"]
    assert "group metadata" in text
    assert "demand" not in text


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "header", ["Bearer rehctaw", "bearer  rehctaw", basic("whoever", "htob"), basic("", "rehctaw")]
)
def test_a_token_of_the_group_opens_all_pages(serve, tokens, path, header):
    assert status(serve(tokens=tokens), path, Authorization=header) == 200


@pytest.mark.parametrize(
    "header",
    [
        "Bearer nope",
        "Bearer ",
        "Bearer etal",
        "rehctaw",
        "Digest rehctaw",
        "Basic rehctaw",
        "Basic \xff",
        basic("rehctaw", ""),
        basic("watcher", "nope"),
        "Bearer " + "x" * 5000,
    ],
)
def test_a_wrong_token_opens_none(serve, tokens, header):
    code, headers, text = get(serve(tokens=tokens), "/metrics", Authorization=header)
    assert code == 401
    assert headers.get_all("WWW-Authenticate")
    assert "rehctaw" not in text


def test_two_tokens_are_none(serve, tokens):
    host, _, port = serve(tokens=tokens).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        header = b"Authorization: Bearer rehctaw\r\n"
        connection.sendall(b"GET / HTTP/1.1\r\n" + 2 * header + b"\r\n")
        assert connection.recv(4096).split(b" ")[1] == b"401"


def test_a_token_of_another_group_is_told_which_it_must_be(serve, tokens):
    code, _, text = get(serve(tokens=tokens), "/", Authorization="Bearer rellac")
    assert code == 403
    assert "needs a token of the group metadata; this one, of caller, has inference" in text


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
def test_probes_have_no_token(serve, tokens, path):
    assert status(serve(tokens=tokens), path) == 200
    strict = serve(tokens=tokens, health_needs_token=True)
    code, _, text = get(strict, path)
    assert code == 401
    assert "asks for a token of any group" in text
    assert status(strict, path, Authorization="Bearer rellac") == 200, "any group will do"


def test_all_tokens_are_compared_whatever_is_shown(tokens, monkeypatch):
    """How long a refusal takes must not tell how much of a token was right."""
    from foretell.server.access import tokens as module

    compared = []
    compare = module.hmac.compare_digest
    monkeypatch.setattr(
        module.hmac, "compare_digest", lambda *two: compared.append(two) or compare(*two)
    )
    guard = HttpGuard(None, module.TokenFile(tokens), health=())
    counts = []
    for shown in ("rehctaw", "rehctax", "x"):
        compared.clear()
        headers = [("authorization", f"Bearer {shown}")]
        try:
            asyncio.run(guard.check("/", headers, has_certificate=False))
        except UnauthenticatedError:
            assert shown != "rehctaw"
        counts.append(len(compared))
    assert counts == [4, 4, 4]


def test_pages_come_over_tls_where_grpc_talks_tls(serve, authority, make_authority, tmp_path):
    server = authority.sign("server")
    address = serve(tls_cert=server.cert, tls_key=server.key)
    for path in (*PAGES, "/healthz"):
        assert status(address, path, context=trusting(authority)) == 200
    with pytest.raises(ssl.SSLError):
        status(address, context=trusting(make_authority(tmp_path, "stranger")))
    with pytest.raises((OSError, http.client.HTTPException)):
        get(address, "/")


def test_tokens_and_tls_go_together(serve, authority, tokens):
    server = authority.sign("server")
    address = serve(tls_cert=server.cert, tls_key=server.key, tokens=tokens)
    known = trusting(authority)
    assert status(address, context=known) == 401
    assert status(address, context=known, Authorization="Bearer rehctaw") == 200


def test_who_shakes_no_hands_holds_nobody_up(serve, authority):
    server = authority.sign("server")
    address = serve(tls_cert=server.cert, tls_key=server.key)
    host, _, port = address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    try:
        assert status(address, "/healthz", context=trusting(authority)) == 200
    finally:
        for connection in silent:
            connection.close()


def serial_of(address, context):
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return connection.getpeercert()["serialNumber"]


def test_new_connections_get_a_new_certificate(serve, authority, impatient, caplog):
    server = authority.sign("server")
    address = serve(tls_cert=server.cert, tls_key=server.key)
    known = trusting(authority)
    first = serial_of(address, known)
    authority.sign("renewed").copy_to(server)
    second = serial_of(address, known)
    assert second != first
    server.key.write_text("not a key")
    assert serial_of(address, known) == second, "what is bad is not taken over"
    assert "the former content stays" in caplog.text


def test_clients_show_certificates_where_grpcs_must(
    serve, authority, make_authority, tmp_path, impatient
):
    """But for health: no probe has one."""
    server, client = authority.sign("server"), authority.sign("client")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.cert.read_bytes())
    address = serve(tls_cert=server.cert, tls_key=server.key, tls_client_ca=trusted)
    assert status(address, context=trusting(authority, client)) == 200
    for path in PAGES:
        code, _, text = get(address, path, context=trusting(authority))
        assert (code, "needs a client certificate" in text) == (403, True)
    assert status(address, "/healthz", context=trusting(authority)) == 200
    other = make_authority(tmp_path, "other")
    stranger = trusting(authority, other.sign("stranger"))
    with pytest.raises((OSError, http.client.HTTPException)):
        get(address, "/", context=stranger)
    # An authority that is trusted no more has no clients from then on.
    fresh = tmp_path / "fresh.pem"
    fresh.write_bytes(other.cert.read_bytes())
    os.replace(fresh, trusted)
    assert status(address, context=stranger) == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        get(address, "/", context=trusting(authority, client))


def test_the_port_is_left_open_when_told_to(serve, authority, tokens):
    server = authority.sign("server")
    address = serve(
        tls_cert=server.cert,
        tls_key=server.key,
        tls_client_ca=authority.cert,
        tokens=tokens,
        health_needs_token=True,
        metrics_open=True,
    )
    for path in (*PAGES, "/healthz"):
        assert status(address, path) == 200


def test_a_token_that_is_taken_out_opens_nothing_any_more(serve, tokens):
    address = serve(tokens=tokens)
    assert status(address, Authorization="Bearer rehctaw") == 200
    lines = tokens.read_text().splitlines()
    tokens.write_text("\n".join(line for line in lines if not line.startswith("watcher")))
    end = time.monotonic() + 60
    while status(address, Authorization="Bearer rehctaw") != 401:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_disk_that_hangs_holds_up_nobody_but_who_looks(
    serve, authority, tokens, impatient, monkeypatch
):
    """Tokens and certificates lie where Kubernetes mounts them; probes must hear of no disk."""
    server = authority.sign("server")
    address = serve(tls_cert=server.cert, tls_key=server.key, tokens=tokens)
    known, read = trusting(authority), reloading._signature
    hangs, go_on, looking = threading.Event(), threading.Event(), []

    def slow(paths):
        looking.append(threading.current_thread().name)
        hangs.set()
        assert go_on.wait(60)
        return read(paths)

    assert status(address, context=known, Authorization="Bearer rehctaw") == 200
    monkeypatch.setattr(reloading, "_signature", slow)
    answers = []
    one = threading.Thread(target=lambda: answers.append(status(address, "/livez", context=known)))
    one.start()
    assert hangs.wait(60)
    for _ in range(20):  # more than threads that could wait
        assert status(address, "/livez", context=known) == 200
    assert not answers
    go_on.set()
    one.join(60)
    assert answers == [200]
    assert looking
    assert not {name for name in looking if not name.startswith("asyncio_")}
