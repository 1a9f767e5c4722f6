"""What a call costs beside the graph: from a caller's gRPC to onnxruntime's session and back.

`python tests/benchmarks/serving_overhead.py --forecaster BUNDLE --translator BUNDLE` asks a
`foretell serve` from one caller, in turns with a bare echo service in a process of its own, which
takes as many bytes over the same library and gives as many back. The time inside the session is
measured in this process on the same input. Overhead is a call's time less the session's, both
medians. `--output FILE` also writes JSON. Run it on an idle machine.
"""

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import numpy as np
import onnxruntime as ort
import pandas as pd
from serving_throughput import forecast_requests, server

from foretell.protos.inference import inference_pb2
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.protos.v1.translator_pb2 import TranslateOptions, TranslateRequest
from foretell.protos.v1.translator_pb2_grpc import TranslatorStub
from foretell.runtime import Forecaster, Translator, load_forecaster, load_translator

ROUNDS = 20
ECHO = "/echo.Echo/Echo"
SENTENCE = "twenty one thousand three hundred and five"
Call = Callable[[], object]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forecaster", type=Path, required=True, help="a bundle")
    parser.add_argument("--translator", type=Path, required=True, help="a bundle")
    parser.add_argument("--steps", type=int, default=512, help="rows of the series")
    parser.add_argument("--horizon", type=int, default=48)
    parser.add_argument("--calls", type=int, default=50, help="of each kind, 20 times in turns")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    sessions = SessionTimes()
    forecaster = load_forecaster(arguments.forecaster, threads=1)
    translator = load_translator(arguments.translator, threads=1)
    local = local_calls(forecaster, translator, arguments.steps, arguments.horizon)
    graph_inputs = sessions.inputs_of(local["forecast, one series"])
    with (
        server(arguments.forecaster, batching=True, cores=None) as forecasts_at,
        server(arguments.translator, batching=True, cores=None) as translations_at,
        echo_server() as echo_at,
        grpc.insecure_channel(forecasts_at) as forecasts,
        grpc.insecure_channel(translations_at) as translations,
        grpc.insecure_channel(echo_at) as echo,
    ):
        remote = remote_calls(forecasts, translations, graph_inputs, arguments)
        found = measure(remote, local, sessions, echo, arguments.calls)
    print_table(found)
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")


class SessionTimes:
    """Watches every run of a graph in this process."""

    def __init__(self) -> None:
        """Stand between the product and onnxruntime."""
        self.seconds = 0.0
        self._inputs: dict[str, np.ndarray] = {}
        for name in ("run", "run_with_iobinding"):
            setattr(ort.InferenceSession, name, self._timed(getattr(ort.InferenceSession, name)))

    def inputs_of(self, call: Call) -> dict[str, np.ndarray]:
        """Return what a call gives its graph."""
        call()
        return self._inputs

    def _timed(self, run: Callable[..., object]) -> Callable[..., object]:
        def timed(session: object, *arguments: object, **named: object) -> object:
            self._inputs = next((one for one in arguments if isinstance(one, dict)), {})
            start = time.perf_counter()
            try:
                return run(session, *arguments, **named)
            finally:
                self.seconds += time.perf_counter() - start

        return timed


def local_calls(
    forecaster: Forecaster, translator: Translator, steps: int, horizon: int
) -> dict[str, Call]:
    """What is asked, in this process."""
    request = forecast_requests(steps, horizon)[0]
    series = pd.DataFrame(
        {
            "unique_id": "a",
            "ds": np.arange(steps),
            "y": np.frombuffer(request.history.target.raw, "<f8"),
        }
    )

    def forecast() -> object:
        return forecaster.forecast(series, horizon, freq="1", allow_other_frequency=True)

    return {
        "the forecaster's bare graph": forecast,
        "forecast, one series": forecast,
        "translation, greedy": lambda: translator.translate([SENTENCE]),
    }


def remote_calls(
    forecasts: grpc.Channel,
    translations: grpc.Channel,
    graph_inputs: dict[str, np.ndarray],
    arguments: argparse.Namespace,
) -> dict[str, tuple[Call, int, int]]:
    """The same over the wire, with the bytes that go and come."""
    request = forecast_requests(arguments.steps, arguments.horizon)[0]
    sentence = TranslateRequest(sentences=[SENTENCE], options=[TranslateOptions(beam_size=1)])
    graph = graph_request(arguments.forecaster, graph_inputs)
    infer = forecasts.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=inference_pb2.ModelInferRequest.SerializeToString,
        response_deserializer=inference_pb2.ModelInferResponse.FromString,
    )
    forecaster, translator = ForecasterStub(forecasts), TranslatorStub(translations)
    calls: dict[str, tuple[Callable[..., object], object]] = {
        "the forecaster's bare graph": (infer, graph),
        "forecast, one series": (forecaster.Forecast, request),
        "translation, greedy": (translator.Translate, sentence),
    }
    return {
        name: (
            lambda call=call, request=request: call(request),  # type: ignore[misc]
            request.ByteSize(),  # type: ignore[attr-defined]
            call(request).ByteSize(),  # type: ignore[attr-defined]
        )
        for name, (call, request) in calls.items()
    }


def graph_request(bundle: Path, inputs: dict[str, np.ndarray]) -> inference_pb2.ModelInferRequest:
    """Ask for one run of the graph, over the Open Inference Protocol."""
    kinds = {"float64": "FP64", "float32": "FP32", "int64": "INT64", "bool": "BOOL"}
    request = inference_pb2.ModelInferRequest(model_name=f"{model_name(bundle)}:forecaster")
    for name, value in inputs.items():
        request.inputs.add(name=name, datatype=kinds[str(value.dtype)], shape=value.shape)
        request.raw_input_contents.append(value.tobytes())
    return request


def model_name(bundle: Path) -> str:
    """The name under which a server has a bundle that it is given by its path."""
    folder = bundle.resolve()
    return folder.parent.name if folder.name.isdigit() else folder.name


def measure(
    remote: dict[str, tuple[Call, int, int]],
    local: dict[str, Call],
    sessions: SessionTimes,
    echo: grpc.Channel,
    calls: int,
) -> list[dict[str, float | str]]:
    """Ask in turns: every kind over the wire, its echo, and its session here."""
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for name, (ask, sent, received) in remote.items():
            message = received.to_bytes(4, "little") + bytes(sent)
            echoed = echo.unary_unary(ECHO)
            for what, call in (("call", ask), ("echo", lambda: echoed(message))):  # noqa: B023
                times.setdefault((name, what), []).extend(lasts(call) for _ in range(calls))
            spent = times.setdefault((name, "session"), [])
            for _ in range(calls):
                sessions.seconds = 0.0
                local[name]()
                spent.append(sessions.seconds)
    found: list[dict[str, float | str]] = []
    for name, (_, sent, received) in remote.items():
        call, echoed_ms, session = (
            float(np.median(times[name, what]) * 1e3) for what in ("call", "echo", "session")
        )
        row = {"call_ms": call, "session_ms": session, "overhead_ms": call - session}
        row |= {"echo_ms": echoed_ms, "overhead_to_echo": (call - session) / echoed_ms}
        rounded = {key: round(value, 3) for key, value in row.items()}
        found.append({"asked": name, "sent": sent, "received": received, **rounded})
    return found


def lasts(call: Call) -> float:
    """Time a call in seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@contextmanager
def echo_server() -> Iterator[str]:
    """Serve bytes for bytes in a process of its own; yield its address."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve_echo, args=(there,))
    process.start()
    try:
        yield f"127.0.0.1:{here.recv()}"
    finally:
        process.terminate()
        process.join()


def serve_echo(port: Connection) -> None:
    """Give back so many bytes as the first four of a message say."""

    async def echo(message: bytes, _: grpc.aio.ServicerContext) -> bytes:
        return bytes(int.from_bytes(message[:4], "little"))

    async def serve() -> None:
        served = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(echo)
        served.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("echo.Echo", {"Echo": handler})]
        )
        port.send(served.add_insecure_port("127.0.0.1:0"))
        await served.start()
        await served.wait_for_termination()

    asyncio.run(serve())


def print_table(rows: list[dict[str, float | str]]) -> None:
    """Print the measurements."""
    names = list(rows[0])
    widths = [max(len(name), *(len(str(row[name])) for row in rows)) for name in names]
    for cells in (names, *([str(row[name]) for name in names] for row in rows)):
        print(" | ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))


if __name__ == "__main__":
    main()
