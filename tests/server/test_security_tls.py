"""Private connections: TLS, certificates of clients, files that change, sockets of one's own."""

import hashlib
import os
import socket
import stat
import subprocess
import threading

import grpc
import pytest

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.models_pb2 import ListModelsRequest
from foretell.protos.v1.models_pb2_grpc import ModelsStub
from foretell.server.access.certificates import read_certificates
from foretell.server.background import serve_in_background
from foretell.server.errors import CertificateError, ListenError
from foretell.server.listen import check_address
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions
from foretell.server.security import SecurityOptions, open_doors

# Without a pool of its own a channel takes over the connection of one before it.
OWN = [("grpc.use_local_subchannel_pool", 1)]


@pytest.fixture
def serve(make_forecaster):
    """A context manager: the address of a server with this security."""

    def serve(listen="127.0.0.1:0", **security):
        options = ServerOptions(listen=listen, security=SecurityOptions(**security))
        return serve_in_background(Repository([Model("demand", 1, make_forecaster())]), options)

    return serve


@pytest.fixture
def authority(make_authority, tmp_path):
    return make_authority(tmp_path)


def trusting(authority, client=None):
    return grpc.ssl_channel_credentials(
        authority.cert.read_bytes(),
        client and client.key.read_bytes(),
        client and client.cert.read_bytes(),
    )


def num_models(address, credentials, *, metadata=()):
    """Ask over a new connection."""
    with grpc.secure_channel(address, credentials, options=OWN) as channel:
        request = ListModelsRequest()
        return len(ModelsStub(channel).List(request, timeout=20, metadata=metadata).models)


def assert_no_connection(address, credentials):
    with pytest.raises(grpc.RpcError) as caught:
        num_models(address, credentials)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_tls_serves_those_who_know_its_authority(
    serve, authority, make_authority, tmp_path, make_request
):
    server = authority.sign("server")
    with serve(tls_cert=server.cert, tls_key=server.key) as address:
        with grpc.secure_channel(address, trusting(authority)) as channel:
            answer = ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}))
            assert answer.horizon == 3
        stranger = make_authority(tmp_path, "stranger")
        assert_no_connection(address, trusting(stranger))


def test_a_server_with_tls_talks_to_nobody_in_clear(serve, authority):
    server = authority.sign("server")
    with (
        serve(tls_cert=server.cert, tls_key=server.key) as address,
        grpc.insecure_channel(address, options=OWN) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        ModelsStub(channel).List(ListModelsRequest(), timeout=20)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_mutual_tls_lets_in_those_with_a_certificate_alone(
    serve, authority, make_authority, tmp_path
):
    server, client = authority.sign("server"), authority.sign("client")
    stranger = make_authority(tmp_path, "stranger").sign("someone")
    security = {"tls_cert": server.cert, "tls_key": server.key, "tls_client_ca": authority.cert}
    with serve(**security) as address:
        assert num_models(address, trusting(authority, client)) == 1
        assert_no_connection(address, trusting(authority))
        assert_no_connection(address, trusting(authority, stranger))


def test_a_new_certificate_is_taken_over_and_connections_stay(
    serve, authority, make_authority, tmp_path, impatient
):
    """Certificates live for weeks, servers for longer; nobody must restart one for that."""
    server = authority.sign("server")
    other = make_authority(tmp_path, "other")
    with (
        serve(tls_cert=server.cert, tls_key=server.key) as address,
        grpc.secure_channel(address, trusting(authority), options=OWN) as channel,
    ):
        old = ModelsStub(channel)
        assert len(old.List(ListModelsRequest(), timeout=20).models) == 1
        other.sign("fresh").copy_to(server)
        assert num_models(address, trusting(other)) == 1
        assert_no_connection(address, trusting(authority))
        assert len(old.List(ListModelsRequest(), timeout=20).models) == 1


def test_old_connections_end_where_they_have_an_age(make_forecaster):
    """A client that is locked out must not stay for ever on the connection that it has."""
    options = ServerOptions(listen="127.0.0.1:0", max_connection_age_s=0.2)
    repository = Repository([Model("demand", 1, make_forecaster())])
    left = threading.Event()

    def watch(state):
        if state is grpc.ChannelConnectivity.IDLE and connected.is_set():
            left.set()
        elif state is grpc.ChannelConnectivity.READY:
            connected.set()

    connected = threading.Event()
    with (
        serve_in_background(repository, options) as address,
        grpc.insecure_channel(address, options=OWN) as channel,
    ):
        channel.subscribe(watch)
        stub = ModelsStub(channel)
        assert len(stub.List(ListModelsRequest(), timeout=60).models) == 1
        assert left.wait(60)
        assert len(stub.List(ListModelsRequest(), timeout=60).models) == 1


def test_clients_are_let_in_and_locked_out_with_the_file(
    serve, authority, make_authority, tmp_path, impatient
):
    server, client = authority.sign("server"), authority.sign("client")
    other = make_authority(tmp_path, "other")
    guest = other.sign("guest")
    let_in = tmp_path / "let_in.pem"
    let_in.write_bytes(authority.cert.read_bytes())
    security = {"tls_cert": server.cert, "tls_key": server.key, "tls_client_ca": let_in}
    with serve(**security) as address:
        assert num_models(address, trusting(authority, client)) == 1
        assert_no_connection(address, trusting(authority, guest))
        let_in.write_bytes(other.cert.read_bytes() + b"\n")
        assert num_models(address, trusting(authority, guest)) == 1
        assert_no_connection(address, trusting(authority, client))


def test_a_bad_certificate_is_never_taken_over(serve, authority, tmp_path, impatient, caplog):
    """A key that is there before its certificate is the ordinary case, not a mistake."""
    server, fresh = authority.sign("server"), authority.sign("fresh")
    with serve(tls_cert=server.cert, tls_key=server.key) as address:
        server.key.write_bytes(fresh.key.read_bytes())
        assert num_models(address, trusting(authority)) == 1
        assert "the former content stays" in caplog.text
        server.cert.write_bytes(fresh.cert.read_bytes())
        assert num_models(address, trusting(authority)) == 1
        assert caplog.text.count("the former content stays") == 1


def test_what_is_no_certificate_is_told_before_a_server_starts(authority, tmp_path, caplog):
    server, other = authority.sign("server"), authority.sign("other")
    empty = tmp_path / "empty.pem"
    empty.touch()
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(2**31)
    cases = [
        (pipe, server.key, None, "pipe can't be read: no regular file"),
        (server.cert, server.key, pipe, "pipe can't be read: no regular file"),
        (server.cert, huge, None, "huge can't be read: more than 4,194,304 bytes"),
        (server.cert, other.key, None, r"no certificate with its private key \(.*mismatch"),
        (server.key, server.key, None, "no certificate with its private key"),
        (server.cert, empty, None, "no certificate with its private key"),
        (tmp_path / "none", tmp_path / "nor", None, r"none can't be read: No such file(.|\n)*nor"),
        (server.cert, server.key, empty, "holds no certificates"),
        (server.cert, server.key, server.key, "holds no certificates"),
    ]
    for cert, key, client_ca, problem in cases:
        security = SecurityOptions(tls_cert=cert, tls_key=key, tls_client_ca=client_ca)
        with pytest.raises(CertificateError, match=problem) as caught:
            read_certificates(security)
        assert "PRIVATE" not in str(caught.value)


def test_an_encrypted_key_is_refused_and_never_asked_for(authority, tmp_path):
    """OpenSSL would wait at the terminal for its pass phrase."""
    server = authority.sign("server")
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "ec", "-in", server.key, "-out", locked, "-aes256", "-passout", "pass:xyzzy"],
        check=True,
        capture_output=True,
    )
    with pytest.raises(CertificateError, match="without a pass phrase"):
        read_certificates(SecurityOptions(tls_cert=server.cert, tls_key=locked))


def test_tokens_and_tls_go_together(serve, authority, tmp_path):
    server = authority.sign("server")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"a {hashlib.sha256(b'secret').hexdigest()} metadata\n")
    with serve(tls_cert=server.cert, tls_key=server.key, tokens=tokens) as address:
        known = trusting(authority)
        calling = grpc.access_token_call_credentials("secret")
        assert num_models(address, grpc.composite_channel_credentials(known, calling)) == 1
        with pytest.raises(grpc.RpcError) as caught:
            num_models(address, known)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_socket_is_its_owners_alone(serve, tmp_path):
    mask = os.umask(0)  # the most careless of users
    try:
        with serve(f"unix:{tmp_path}/socket") as address:
            mode = (tmp_path / "socket").stat().st_mode
            assert stat.S_ISSOCK(mode)
            assert stat.S_IMODE(mode) == 0o600
            assert address == f"unix:{tmp_path}/socket"
            with grpc.insecure_channel(address) as channel:
                assert len(ModelsStub(channel).List(ListModelsRequest()).models) == 1
            with pytest.raises(ListenError, match="a server listens there"):
                check_address(address)
        assert os.umask(0) == 0  # as it was
    finally:
        os.umask(mask)


def test_a_socket_that_a_dead_server_left_is_free(serve, tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "socket"))
    with (
        serve(f"unix:{tmp_path}/socket") as address,
        grpc.insecure_channel(address) as channel,
    ):
        assert len(ModelsStub(channel).List(ListModelsRequest()).models) == 1


def test_what_is_no_place_for_a_socket(tmp_path):
    (tmp_path / "file").touch()
    cases = {
        "unix:": "there is no path",
        f"unix:{tmp_path}/file": "something else than a socket",
        f"unix:{tmp_path}/none/socket": "there is no folder",
        f"unix:{tmp_path}/{'x' * 100}": "may have 107 bytes",
    }
    for address, problem in cases.items():
        with pytest.raises(ListenError, match=problem):
            check_address(address)
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize(
    "listen", ["127.0.0.1:8001", "localhost:0", "[::1]:8001", "127.9.9.9:1", "unix:/run/foretell"]
)
def test_a_server_of_this_machine_alone_has_no_open_door(listen):
    assert open_doors(listen, SecurityOptions()) == []


@pytest.mark.parametrize("listen", ["0.0.0.0:8001", ":8001", "[::]:8001", "192.0.2.1:8001"])
def test_what_stands_open_is_told(listen, tmp_path):
    secured = {"tls_cert": tmp_path, "tls_key": tmp_path}
    both = open_doors(listen, SecurityOptions())
    assert len(both) == 2
    assert "in clear" in both[0]
    assert "can ask the models" in both[1]
    (clear,) = open_doors(listen, SecurityOptions(tokens=tmp_path))
    assert "can read requests and tokens" in clear
    assert len(open_doors(listen, SecurityOptions(**secured))) == 1
    assert open_doors(listen, SecurityOptions(**secured, tokens=tmp_path)) == []
    assert open_doors(listen, SecurityOptions(**secured, tls_client_ca=tmp_path)) == []
    guarded = SecurityOptions(**secured, tokens=tmp_path)
    assert open_doors(listen, guarded, "0.0.0.0:8002") == []
    left_open = SecurityOptions(**secured, tokens=tmp_path, metrics_open=True)
    (metrics,) = open_doors(listen, left_open, "0.0.0.0:8002")
    assert "asks for no token" in metrics
    assert open_doors(listen, left_open, "127.0.0.1:8002") == []
    (clear,) = open_doors("127.0.0.1:8001", SecurityOptions(tokens=tmp_path), "0.0.0.0:8002")
    assert "takes tokens in clear" in clear
