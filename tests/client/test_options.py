"""What is wrong with a client's own options is told in words before anything is sent."""

import pytest

from foretell.client import AsyncClient, Client
from foretell.client.models import describe_request
from foretell.client.options import MIB, ClientOptions
from foretell.data.errors import OptionError


def test_options_out_of_range_are_told_before_any_call():
    with pytest.raises(OptionError) as caught:
        Client("127.0.0.1:1", timeout_s=0, in_flight=-1)
    assert len(caught.value.problems) == 2
    with pytest.raises(OptionError, match="a chunk must fit a message"):
        ClientOptions(chunk_bytes=10, max_message_bytes=9)
    with Client("127.0.0.1:1") as client, pytest.raises(OptionError, match="horizon is 0"):
        client.forecast(None, 0)


@pytest.mark.parametrize(
    "name", ["timeout_s", "max_message_bytes", "chunk_bytes", "in_flight", "retry_s"]
)
@pytest.mark.parametrize("value", ["3", None, True, float("nan"), float("inf"), 2**70])
def test_options_of_the_wrong_kind_are_told_too(name, value):
    """gRPC says of them what its inner works say, or nothing until the first call."""
    with pytest.raises(OptionError, match=f"{name} is"):
        ClientOptions(**{name: value})


@pytest.mark.parametrize("target", ["", "localhost", ":8001", "localhost:", "local host:8001"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_without_a_port_is_refused_at_once(kind, target):
    """gRPC takes the port of https for it, and waits."""
    with pytest.raises(OptionError, match="give HOST:PORT"):
        kind(target)


@pytest.mark.parametrize("target", ["http://localhost:8001", "HTTPS://localhost:8001/"])
def test_an_address_of_a_browser_is_refused(target):
    """gRPC finds no resolver of that name, and whoever is told so would ask again later."""
    scheme = target.partition("localhost")[0]
    with pytest.raises(OptionError, match=f"give HOST:PORT, without {scheme}, such as"):
        Client(target)


@pytest.mark.parametrize("target", [None, 8001, "\ud800:8001"])
def test_what_is_no_address_at_all_is_refused(target):
    with pytest.raises(OptionError, match="give HOST:PORT"):
        Client(target)


@pytest.mark.parametrize("name", ["", 5, "\ud800", b"demand"])
def test_a_name_that_no_model_has_is_refused(name):
    """An empty one would silently mean the only model there is."""
    with pytest.raises(OptionError, match="the model is"):
        describe_request(name, None)


@pytest.mark.parametrize("version", [0, -1, 2**63, "1", 1.5, True])
def test_a_version_that_no_model_has_is_refused(version):
    """0 would silently mean the one that is served."""
    with pytest.raises(OptionError, match="the version is"):
        describe_request("demand", version)


def test_a_chunk_leaves_room_in_the_smaller_of_both_messages():
    options = ClientOptions()
    assert options.chunk_bytes_for(64 * MIB) == 3 * MIB
    assert options.chunk_bytes_for(4 * MIB) == 3 * MIB
    assert options.chunk_bytes_for(MIB) == MIB * 3 // 4
    assert options.chunk_bytes_for(0) == 3 * MIB  # a server that doesn't tell
    small = ClientOptions(max_message_bytes=MIB, chunk_bytes=MIB)
    assert small.chunk_bytes_for(64 * MIB) == MIB * 3 // 4
