"""HC03, HC04, HC06, HD02, HD04, HD05: `foretell serve` as a process, with real models."""

import os
import re
import runpy
import shutil
import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from foretell.client import Client
from foretell.data.errors import BundleError, DeviceError
from foretell.data.text.number_words import english_words
from foretell.data.text.translation import TranslateOptions
from foretell.protos.v1 import translator_pb2 as wire
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.runtime import load
from foretell.runtime.cpu import allowed_cores
from foretell.server.services.model_health import LIVENESS

PROCESSES = runpy.run_path(str(Path(__file__).parents[1] / "server" / "server_process.py"))
CommandProcess, wait_for_health = PROCESSES["CommandProcess"], PROCESSES["wait_for_health"]
NOT_SERVING, SERVING = PROCESSES["NOT_SERVING"], PROCESSES["SERVING"]
WAIT_S = 120.0
LINES = [f"{english_words(at)} {english_words(999 - at)}" for at in range(200)]


@pytest.fixture(scope="module")
def translators(translator_bundle_path, tmp_path_factory) -> Path:
    """A folder with one translator, `ende`."""
    root = tmp_path_factory.mktemp("translators")
    shutil.copytree(translator_bundle_path, root / "ende" / "1")
    return root


@pytest.fixture(scope="module")
def expected(translators):
    """What this process says of sentences, text by text."""
    translator = load(translators / "ende", device="cpu", threads=1)

    def ask(sentences, **options):
        answers = translator.translate(sentences, TranslateOptions(**options))
        return [answer.text for answer in answers]

    return ask


def number(http: str, name: str) -> float:
    """Sum of a metric, or several, over all labels, as Prometheus reads it."""
    with urllib.request.urlopen(f"http://{http}/metrics", timeout=WAIT_S) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^(?:{name}){{[^}}]*}} (\S+)$", text, re.M))


def wait_for_number(http: str, name: str, wanted: float) -> None:
    end = time.monotonic() + WAIT_S
    while number(http, name) != wanted:
        assert time.monotonic() < end, f"{name} is {number(http, name)}"
        time.sleep(0.02)


def http_of(server) -> str:
    return server.wait_for(r"metrics at http://(\S+)$")[1]


def test_hc03_every_damaged_file_of_a_translator_is_named(translators, tmp_path):
    bundle = tmp_path / "elsewhere" / "moved"
    shutil.copytree(translators / "ende" / "1", bundle)
    files = sorted(file for file in bundle.rglob("*") if file.is_file())
    assert {"encoder.onnx", "decoder.onnx", "tokenizer.model"} <= {file.name for file in files}
    for file in files:
        whole = file.read_bytes()
        for size in (0, 1, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:size])
            with pytest.raises(BundleError, match=rf"{file.name}.*(incomplete|damaged)"):
                load(bundle)
        file.unlink()
        with pytest.raises(BundleError, match=r"missing|no manifest"):
            load(bundle)
        file.write_bytes(whole)
    load(bundle, device="cpu", threads=1)


def test_hc03_a_server_with_a_damaged_model_alone_is_not_ready(translators, tmp_path):
    """By itself it doesn't start; where a whole one may come, it waits, and then answers."""
    models = tmp_path / "models"
    shutil.copytree(translators, models)
    graph = models / "ende/1/decoder.onnx"
    whole = graph.read_bytes()
    graph.write_bytes(whole[: len(whole) // 2])
    with CommandProcess(models) as server:
        assert server.end() == 1
    assert re.search(r"decoder\.onnx [^\n]*incomplete", server.log)
    assert "Traceback" not in server.log
    with CommandProcess(models, "--model-control", "poll", "--poll-s", 0.05) as server:
        address = server.wait_until_it_listens()
        with grpc.insecure_channel(address) as channel:
            for service in ("", "ende"):
                wait_for_health(channel, NOT_SERVING, service)
            wait_for_health(channel, SERVING, LIVENESS)
            beside = models / "whole"
            beside.write_bytes(whole)
            beside.rename(graph)
            for service in ("", "ende"):
                wait_for_health(channel, SERVING, service)
        with Client(address) as client:
            assert client.translate(["one"])[0].text


def test_hc04_a_server_asked_for_a_gpu_that_is_not_there_does_not_start(translators):
    """And "auto" says in the log, over gRPC and in metrics what computes."""
    try:
        load(translators / "ende", device="cuda")
    except DeviceError:
        pass
    else:
        pytest.skip("this machine has a GPU that works")
    with CommandProcess(translators, "--device", "cuda") as server:
        assert server.end() == 1
    assert "CUDAExecutionProvider can't be had" in server.log
    assert "Traceback" not in server.log
    with CommandProcess(translators, "--device", "auto") as server:
        assert server.wait_for(r"model=ende version=1 provider=(\S+)$")[1] == "CPUExecutionProvider"
        address, http = server.wait_until_it_listens(), http_of(server)
        with Client(address) as client:
            assert client.describe("ende").provider == "CPUExecutionProvider"
        page = urllib.request.urlopen(f"http://{http}/metrics", timeout=WAIT_S)
        with page:
            assert b'provider="CPUExecutionProvider",state="ready"' in page.read()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process")
def test_hc06_a_server_held_to_one_core_computes_on_one_and_says_the_same(translators, expected):
    """All threads of all sessions; the quota of a container is counted in `runtime/test_cpu.py`."""
    core = min(os.sched_getaffinity(0))
    pin = {"preexec_fn": lambda: os.sched_setaffinity(0, {core})}
    found = {}
    for name, how in (("one core", pin), ("all cores", {})):
        with CommandProcess(translators, **how) as server:
            cores = 1 if how else allowed_cores()
            for graph in ("encoder", "decoder"):
                pattern = rf"{graph}\.onnx runs on CPUExecutionProvider with (\d+) threads"
                assert int(server.wait_for(pattern)[1]) == cores
            address, http = server.wait_until_it_listens(), http_of(server)
            with Client(address) as client, ThreadPoolExecutor(8) as callers:
                idle = len(os.listdir(f"/proc/{server.process.pid}/task"))
                parts = [LINES[at::8] for at in range(8)]
                answers = list(callers.map(client.translate, parts))
                busy = len(os.listdir(f"/proc/{server.process.pid}/task"))
            found[name] = [one.text for part in answers for one in part]
            # What computes, two that read, and those of gRPC and HTTP, which do not compute.
            assert busy <= idle + cores + 2 + 16
            wait_for_number(http, "foretell_requests_in_work", 0)
            server.signal()
            server.signal()
            server.end()
        assert "affinity" not in server.log.lower()
    assert found["one core"] == found["all cores"] == expected([x for p in parts for x in p])


def test_hd02_what_nobody_waits_for_is_soon_not_in_work(translators, expected):
    """By a deadline, and by hand; the call after them finds an idle server."""
    with CommandProcess(translators, "--max-beam-size", 8) as server:
        address, http = server.wait_until_it_listens(), http_of(server)
        with grpc.insecure_channel(address) as channel, Client(address) as client:
            stub = TranslatorStub(channel)
            request = wire.TranslateRequest(
                sentences=LINES * 5, options=[wire.TranslateOptions(beam_size=8)]
            )
            late = [stub.Translate.future(request, timeout=0.2) for _ in range(8)]
            for call in late:
                assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            wait_for_number(http, "foretell_requests_in_work", 0)
            left = [stub.Translate.future(request, timeout=WAIT_S) for _ in range(8)]
            while not number(http, "foretell_requests_in_work"):
                assert not any(call.done() for call in left)
            for call in left:
                call.cancel()
            wait_for_number(http, "foretell_requests_in_work", 0)
            (answer,) = client.translate(["seven"])
            assert [answer.text] == expected(["seven"])
            assert number(http, "nv_inference_request_success") == 1, "of the short call alone"


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "127.0.0.1:1"])
def test_hd04_a_port_that_cannot_be_had(translators, address):
    if address.endswith(":1") and os.geteuid() == 0:
        pytest.skip("root may use every port")
    with CommandProcess(translators, "--listen", address) as server:
        assert server.end() in {1, 2}
    assert re.search(rf"(?<!\d){address.rpartition(':')[2]}(?!\d)", server.log)
    assert "Traceback" not in server.log


@pytest.mark.parametrize("number_of_signal", [signal.SIGTERM, signal.SIGINT])
def test_hd05_a_stop_signal_throws_nothing_away(translators, expected, number_of_signal):
    flags = ("--drain-delay-s", 0, "--grace-s", WAIT_S)
    request = wire.TranslateRequest(sentences=LINES, options=[wire.TranslateOptions(beam_size=5)])
    with CommandProcess(translators, *flags) as server:
        address, http = server.wait_until_it_listens(), http_of(server)
        with grpc.insecure_channel(address) as channel:
            stub = TranslatorStub(channel)
            work = [stub.Translate.future(request, timeout=WAIT_S) for _ in range(4)]
            wait_for_number(http, "foretell_requests_in_work|nv_inference_request_success", 4)
            server.signal(number_of_signal)
            server.wait_for("stopping; ")
            with pytest.raises(grpc.RpcError) as caught:
                stub.Translate(wire.TranslateRequest(sentences=["one"]), timeout=WAIT_S)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            right = expected(LINES, beam_size=5)
            for call in work:
                found = [one.hypotheses[0].text for one in call.result().translations]
                assert found == right
        assert server.end() == 0
    assert "Traceback" not in server.log


def test_hd05_a_second_signal_ends_what_is_left(translators):
    with CommandProcess(translators, "--drain-delay-s", 0, "--grace-s", 10_000) as server:
        address, http = server.wait_until_it_listens(), http_of(server)
        with grpc.insecure_channel(address) as channel:
            request = wire.TranslateRequest(
                sentences=LINES * 5, options=[wire.TranslateOptions(beam_size=64)]
            )
            call = TranslatorStub(channel).Translate.future(request, timeout=WAIT_S * 10)
            wait_for_number(http, "foretell_requests_in_work", 1)
            server.signal()
            server.wait_for("stopping; ")
            server.signal()
            assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert server.end() == 1
    assert "some requests were cut off" in server.log
