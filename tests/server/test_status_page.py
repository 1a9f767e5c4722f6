"""The HTTP port as tools and browsers ask it: pages, refusals, and nobody who holds it up."""

import asyncio
import contextlib
import json
import re
import runpy
import signal
import socket
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import pytest

from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.server.errors import ListenError
from foretell.server.http.model_states import ModelState
from foretell.server.http.port import HttpPort, Page
from foretell.server.http.recent import ModelActivity
from foretell.server.http.status_page import ServerStatus, write_fragment, write_page
from foretell.server.http.status_port import check_metrics, metrics_address
from foretell.server.models.repository import Failure

ServerProcess = runpy.run_path(str(Path(__file__).with_name("server_process.py")))["ServerProcess"]


def fetch(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return answer.read().decode(), answer.headers


class Checker(HTMLParser):
    """Finds what a page loads from elsewhere, and elements that are not closed."""

    VOID = ("meta", "link", "polygon", "polyline")

    def __init__(self):
        super().__init__()
        self.foreign = []
        self.stack = []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href") and re.match("(https?:)?//", value):
                self.foreign.append(value)
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


def check(text):
    checker = Checker()
    checker.feed(text)
    assert not checker.stack
    return checker


def test_the_page_tells_models_states_and_numbers(watching, make_forecaster, make_request):
    failures = [Failure("energy", 3, "forecaster.onnx is missing")]
    with watching(failures, demand=make_forecaster()) as (channel, address):
        for _ in range(3):
            ForecasterStub(channel).Forecast(make_request({"a": [1, 2]}))
        page, headers = fetch(address, "/")
        fragment, _ = fetch(address, "/status")
        numbers = json.loads(fetch(address, "/status.json")[0])
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    for text in (page, fragment):
        check(text)
        for part in ("demand", "ready", "FakeExecutionProvider", "energy", "version 3", "failed"):
            assert part in text
        assert "forecaster.onnx is missing" in text
    assert numbers["is_serving"] is True
    by_name = {model["state"]["name"]: model for model in numbers["models"]}
    assert by_name["energy"]["state"]["reason"] == "forecaster.onnx is missing"
    assert by_name["demand"]["state"]["provider"] == "FakeExecutionProvider"


def test_the_page_needs_nothing_from_elsewhere(watching, make_forecaster):
    """It is read where there is no other network, and must not tell others who reads it."""
    with watching(demand=make_forecaster()) as (_, address):
        page, headers = fetch(address, "/")
    assert not check(page).foreign
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "url(" not in page


def test_the_policy_allows_the_pages_own_style_and_script(watching, make_forecaster):
    """A hash that doesn't fit leaves a page without style that never refreshes."""
    import base64
    import hashlib

    with watching(demand=make_forecaster()) as (_, address):
        page, headers = fetch(address, "/")
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in headers["Content-Security-Policy"]
    assert " style=" not in page
    assert " onclick=" not in page


def test_what_a_reason_says_is_text():
    """A damaged bundle's file names come from whoever wrote it."""
    state = ModelState("demand", 1, "failed", reason='<script>alert("x")</script>')
    activity = ModelActivity(
        state, 0.0, 0.0, None, None, None, None, None, None, None, 0.0, 0, 0, (0.0, 1.0)
    )
    status = ServerStatus("127.0.0.1:8001", True, 1.0, [activity])
    for page in (write_page(status), write_fragment(status)):
        assert b"<script>alert" not in page.body
        assert b"&lt;script&gt;alert" in page.body


def test_health_answers_as_grpcs_does(watching, make_forecaster):
    with watching(demand=make_forecaster()) as (_, address):
        assert fetch(address, "/healthz")[0] == "serving\n"
    with watching() as (_, address):
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(address, "/healthz")
        assert fetch(address, "/livez")[0] == "alive\n", "nobody need kill it"
    assert caught.value.code == 503
    caught.value.close()


def test_a_server_that_stops_says_so_while_it_still_answers(tmp_path):
    """Load balancers that ask over HTTP need the delay as much as those that ask gRPC's health."""
    (tmp_path / "models/demand/1").mkdir(parents=True)
    with ServerProcess(tmp_path / "models", metrics="next", drain_delay_s=600.0) as server:
        address = server.wait_for(r"status page and metrics at http://(\S+)$")[1]
        assert fetch(address, "/healthz")[0] == "serving\n"
        server.signal(signal.SIGTERM)
        server.wait_for("stopping; ")
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(address, "/healthz")
        assert caught.value.code == 503
        caught.value.close()
        assert "not serving" in fetch(address, "/")[0]
        assert fetch(address, "/livez")[0] == "alive\n"
        server.signal(signal.SIGTERM)
        assert server.end() == 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /healthz?x=1 HTTP/1.1\r\n\r\n", b"200"),
        (b"HEAD /healthz HTTP/1.0\r\n\r\n", b"200"),
        (b"POST /status HTTP/1.1\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"\xff\xfe\x00 \xff \xff\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 100_000, b"400"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"405"),
    ],
)
def test_whatever_is_asked_gets_an_answer(watching, make_forecaster, sent, status):
    with watching(demand=make_forecaster()) as (_, address):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(sent)
            answer = connection.recv(4096)
        assert answer.split(b" ")[1] == status
        assert fetch(address, "/healthz")[0] == "serving\n"


def test_callers_that_say_nothing_hold_nobody_up(watching, make_forecaster):
    """Else whoever reaches the port keeps probes from an answer, and the server is killed."""
    with watching(demand=make_forecaster()) as (_, address), contextlib.ExitStack() as held:
        host, _, port = address.rpartition(":")
        for _ in range(4):
            for _ in range(50):
                held.enter_context(socket.create_connection((host, int(port))))
            assert fetch(address, "/livez")[0] == "alive\n"


def test_a_fault_in_a_page_is_told_without_its_text(caplog):
    def broken():
        raise RuntimeError("secret")

    async def ask():
        port = HttpPort("127.0.0.1:0", {"/": broken, "/good": lambda: Page(b"good")})
        await port.start()
        answers = []
        for path in (b"/", b"/good"):
            host, _, number = port.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(b"GET " + path + b" HTTP/1.1\r\n\r\n")
            answers.append(await reader.read())
            writer.close()
        await port.stop()
        return answers

    broken_answer, good = asyncio.run(ask())
    assert b"500" in broken_answer.split(b"\r\n")[0]
    assert b"secret" not in broken_answer
    assert "secret" in caplog.text
    assert good.endswith(b"good")


@pytest.mark.parametrize(
    ("metrics", "listen", "address"),
    [
        ("none", "127.0.0.1:8001", ""),
        ("next", "127.0.0.1:8001", "127.0.0.1:8002"),
        ("next", "[::1]:9000", "[::1]:9001"),
        ("next", ":8001", "0.0.0.0:8002"),
        ("next", "127.0.0.1:0", "127.0.0.1:0"),
        ("next", "127.0.0.1:65535", "127.0.0.1:0"),
        ("next", "unix:/run/foretell.sock", ""),
        ("127.0.0.1:9100", "unix:/run/foretell.sock", "127.0.0.1:9100"),
        ("10.0.0.1:9100", "127.0.0.1:8001", "10.0.0.1:9100"),
    ],
)
def test_where_the_port_is(metrics, listen, address):
    assert metrics_address(metrics, listen) == address


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ListenError, match="expected HOST:PORT"):
        metrics_address("8002", "127.0.0.1:8001")


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: the port is in use"):
            asyncio.run(HttpPort(f"127.0.0.1:{port}", {}).start())
        with pytest.raises(ListenError, match="or do without: --metrics none"):
            check_metrics(f"127.0.0.1:{port}", "127.0.0.1:0")
    check_metrics("", "127.0.0.1:8001")


@pytest.mark.parametrize("listen", ["127.0.0.1", "localhost", "0.0.0.0", ""])
def test_grpcs_own_port_is_refused(listen):
    """Workers share their ports: half of all calls would reach the pages, and of all pages gRPC."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ListenError, match=f"gRPC's port is that of {listen}:{port}.*--metrics"):
        check_metrics(f"127.0.0.1:{port}", f"{listen}:{port}")
    check_metrics(f"127.0.0.1:{port}", f"127.0.0.2:{port}")
    check_metrics("127.0.0.1:0", f"{listen}:0")
