"""A port that can't be had is an error that names it, before anything is loaded."""

import os
import socket
import threading

import pytest

from foretell.data.errors import OptionError
from foretell.server.background import serve_in_background
from foretell.server.errors import ListenError
from foretell.server.listen import check_address
from foretell.server.models.repository import Repository
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions


@pytest.fixture
def taken_port():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_free_addresses_are_given_back():
    assert check_address("127.0.0.1:0") == "127.0.0.1:0"
    assert check_address("localhost:0") == "localhost:0"
    assert check_address(":0") == "0.0.0.0:0"


def test_a_port_that_another_program_holds(taken_port):
    with pytest.raises(ListenError, match=f":{taken_port}: the port is in use"):
        check_address(f"127.0.0.1:{taken_port}")


def test_a_port_shared_by_another_server_is_in_use_too():
    """gRPC servers share ports by default: both would bind, and requests go to either."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ListenError, match="in use"):
            check_address(f"127.0.0.1:{other.getsockname()[1]}")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1:99999", "port 99999; a port is 0 to 65535"),
        ("8001", "expected HOST:PORT"),
        ("127.0.0.1:http", "expected HOST:PORT"),
        ("::1:8001", "expected HOST:PORT"),
        ("no.such.host.invalid:8001", "no known host"),
        ("192.0.2.1:8001", "this machine has no such address"),
    ],
)
def test_what_is_no_address(address, text):
    with pytest.raises(ListenError, match=text):
        check_address(address)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every port")
def test_a_port_that_needs_rights():
    with pytest.raises(ListenError, match=r"127\.0\.0\.1:1: this user may not use that port"):
        check_address("127.0.0.1:1")


def test_a_refused_port_is_told_as_one(monkeypatch):
    """As for users without rights, whoever runs the tests."""

    def bind(self, place):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", bind)
    with pytest.raises(ListenError, match=r"127\.0\.0\.1:80: this user may not use that port"):
        check_address("127.0.0.1:80")


def test_a_host_with_one_address_that_works_is_enough(monkeypatch):
    """`localhost` may also name an IPv6 address on a machine that has no IPv6."""
    real = socket.getaddrinfo("127.0.0.1", 0, type=socket.SOCK_STREAM)
    absent = socket.getaddrinfo("192.0.2.1", 0, type=socket.SOCK_STREAM)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: absent + real)
    assert check_address("both.test:0") == "both.test:0"


def server_threads():
    return {thread for thread in threading.enumerate() if thread.name == "foretell-server"}


def test_a_server_that_cannot_listen_leaves_nothing_behind(taken_port, make_forecaster):
    repository = Repository([Model("demand", 1, make_forecaster())])
    options = ServerOptions(listen=f"127.0.0.1:{taken_port}")
    before = server_threads()
    with (
        pytest.raises(ListenError, match="in use"),
        serve_in_background(repository, options),
    ):
        pass
    assert server_threads() == before


def test_options_out_of_range_are_all_told():
    with pytest.raises(OptionError) as caught:
        ServerOptions(
            instances=0,
            max_message_bytes=1,
            max_sentences=0,
            max_characters=2**31,
            max_beam_size=65,
            grace_s=-1,
        )
    assert len(caught.value.problems) == 6
    assert "max_beam_size is 65; it must be 1 to 64." in caught.value.problems
