"""Serves models until told to stop: what `foretell serve` runs."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from foretell.data.errors import OptionError
from foretell.data.series.options import MAX_HORIZON
from foretell.data.text.translation import LARGEST_BEAM
from foretell.server.access.certificates import read_certificates
from foretell.server.access.tokens import read_tokens
from foretell.server.application import Ending
from foretell.server.http.status_port import NEXT, check_metrics, metrics_address
from foretell.server.listen import check_address
from foretell.server.models.loading import load_warm
from foretell.server.models.repository import Load, ModelControl, Repository
from foretell.server.options import MIB, ServerOptions
from foretell.server.process import (
    Listen,
    flush_streams,
    on_orders,
    on_signals,
    serve_process,
)
from foretell.server.security import SecurityOptions
from foretell.server.settings import settings_in_force, write_settings
from foretell.server.telemetry.logs import LogCalls, LogFormat, log_to_stderr, name_worker
from foretell.server.telemetry.tracing import check_trace_endpoint
from foretell.server.workers import Supervisor, hold_port

_log = logging.getLogger(__name__)


def serve(
    models: str | Path,
    listen: str = "127.0.0.1:8001",
    *,
    metrics: str = NEXT,
    log_format: LogFormat = "text",
    log_calls: LogCalls = "failed",
    trace_endpoint: str = "",
    security: SecurityOptions | None = None,
    model_control: ModelControl | None = None,
    device: str = "auto",
    threads: int | None = None,
    workers: int = 1,
    instances: int | None = None,
    batching: bool = True,
    max_queue: int = 256,
    max_queue_bytes: int = 256 * MIB,
    max_batch_s: float = 300.0,
    max_message_bytes: int = 64 * MIB,
    max_series: int = 10_000,
    max_steps: int = 1_000_000,
    max_horizon: int = MAX_HORIZON,
    max_sentences: int = 1024,
    max_characters: int = 100_000,
    max_beam_size: int = LARGEST_BEAM,
    max_connection_age_s: float = 0.0,
    drain_delay_s: float = 5.0,
    grace_s: float = 30.0,
    max_hang_s: float = 60.0,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Load models and serve them until SIGTERM, SIGHUP or SIGINT.

    After the first two health says NOT_SERVING at once, new calls are answered during the delay,
    and those in work finish within the grace; after SIGINT without the delay; a second signal ends
    all at once. The process ends here, with code 1, if calls were cut off; also, with code 0, if it
    was asked to stop before it served, or if something is still being computed that nobody waits
    for. The log goes to stderr.

    Args:
        models: A folder of models (models/NAME/VERSION), one model's folder, or one bundle.
        listen: HOST:PORT, where port 0 takes a free one; or unix:PATH.
        metrics: HOST:PORT of the HTTP port with metrics, health and the status page; "next" is
            gRPC's host and the port after its own, "none" is no such port.
        log_format: "text" for people, or "json", an object a line.
        log_calls: Calls with a line of their own: those that "failed", or "all".
        trace_endpoint: Of the collector that spans go to, http://HOST:PORT; empty for no spans.
        security: Certificates and tokens; None asks for none.
        model_control: What changes the models later on; None keeps those of the start.
        device: "auto", "cpu" or "cuda".
        threads: Threads of each model; None takes the allowed cores.
        workers: Processes that share the address, each with models of its own.
        instances: Batches of a model that are computed at a time, in each of them; None takes as
            many as the model has threads.
        batching: Requests of several callers may share a batch.
        max_queue: Most requests that wait for a model.
        max_queue_bytes: Most bytes of all requests for a model.
        max_batch_s: Seconds after which a batch is stopped, and its callers get an error.
        max_message_bytes: Largest request and largest answer.
        max_series: Most series of one request to a forecaster.
        max_steps: Most rows of one series.
        max_horizon: Most steps ahead.
        max_sentences: Most sentences of one request to a translator.
        max_characters: Most characters of one sentence.
        max_beam_size: Largest beam.
        max_connection_age_s: Seconds after which clients are asked to connect anew; 0 for never.
        drain_delay_s: Seconds after SIGTERM in which new requests are still answered.
        grace_s: Seconds that requests in work get to finish when the server stops.
        max_hang_s: Seconds after which one of several workers that stands still is killed and
            replaced; 0 for never.
        on_listening: Gets the address with the bound port, once the server answers.

    Raises:
        OptionError: An option is out of its range.
        BundleError: No model can be served.
        ModelNotFoundError: A version that is pinned is not there.
        DeviceError: The device can't be had.
        ListenError: The address can't be had.
        CertificateError: TLS can't be had with the files.
        TokenFileError: The file of tokens is missing, malformed or empty.
    """
    options = ServerOptions(
        listen=listen,
        metrics=metrics_address(metrics, listen),
        trace_endpoint=trace_endpoint,
        security=security or SecurityOptions(),
        workers=workers,
        instances=instances,
        batching=batching,
        max_queue=max_queue,
        max_queue_bytes=max_queue_bytes,
        max_batch_s=max_batch_s,
        max_message_bytes=max_message_bytes,
        max_series=max_series,
        max_steps=max_steps,
        max_horizon=max_horizon,
        max_sentences=max_sentences,
        max_characters=max_characters,
        max_beam_size=max_beam_size,
        max_connection_age_s=max_connection_age_s,
        drain_delay_s=drain_delay_s,
        grace_s=grace_s,
        max_hang_s=max_hang_s,
    )
    control = model_control or ModelControl()
    if workers > 1 and control.mode == "explicit":
        raise OptionError(
            f"workers is {workers}, and model_control is 'explicit', but a caller who loads a "
            "model reaches one worker only; poll, or take one worker."
        )
    log_to_stderr(log_format, log_calls)
    check_address(options.listen)  # before a load that may take long
    check_metrics(options.metrics, options.listen)
    check_trace_endpoint(trace_endpoint)
    load = partial(load_warm, device=device, threads=threads)
    others = {"device": device, "log_format": log_format, "log_calls": log_calls}
    source = _Models(Path(models), load, control, threads, others)
    if workers > 1:
        _end(_serve_workers(source, options, on_listening))
    else:
        _end(_serve_or_stop(source, options, on_listening))


@dataclass(frozen=True, slots=True)
class _Models:
    path: Path
    load: Load
    control: ModelControl
    threads: int | None
    others: Mapping[str, object]  # options that concern neither them nor how they are served


def _serve_or_stop(
    models: _Models, options: ServerOptions, on_listening: Callable[[str], None] | None
) -> Ending:
    """Serve; a signal that comes before the server listens ends it too, as any other start."""
    try:
        return _serve_alone(models, options, on_signals, on_listening)
    except KeyboardInterrupt:
        _log.info("stopped before it served")
        return Ending.ABANDONED  # onnxruntime aborts a process that leaves it in a load


def _serve_alone(
    models: _Models,
    options: ServerOptions,
    listen: Listen,
    on_listening: Callable[[str], None] | None,
) -> Ending:
    if options.worker == 0:
        _tell_settings(models, options)
    read_certificates(options.security)  # before a load that may take long, and so the next
    if options.security.tokens is not None:
        read_tokens(options.security.tokens)
    repository = Repository.load(models.path, models.load, control=models.control)
    return serve_process(repository, options, listen, on_listening)


def _tell_settings(models: _Models, options: ServerOptions) -> None:
    settings = settings_in_force(
        models.path, options, models.control, threads=models.threads, others=models.others
    )
    _log.info("options: %s", write_settings(settings), extra={"fields": {"options": settings}})


def _serve_workers(
    models: _Models, options: ServerOptions, on_listening: Callable[[str], None] | None
) -> Ending:
    holder, address = hold_port(options.listen)
    with ExitStack() as held:
        held.enter_context(holder)
        shared = replace(options, listen=address)
        if options.metrics:
            metrics_holder, metrics = hold_port(options.metrics)
            held.enter_context(metrics_holder)
            shared = replace(shared, metrics=metrics)
        try:
            folder = held.enter_context(TemporaryDirectory(prefix="foretell-"))
            shared = replace(shared, counts_folder=Path(folder))
        except OSError as error:  # a container may have nowhere to write
            _log.warning("each worker tells only what it counted itself: %s; set TMPDIR", error)
        return _supervise(models, shared, on_listening)


def _supervise(
    models: _Models, options: ServerOptions, on_listening: Callable[[str], None] | None
) -> Ending:
    def serve(number: int, orders: int, tell: Callable[[str], None]) -> int:
        name_worker(number)
        own = replace(options, worker=number)
        return _code(_serve_alone(models, own, on_orders(orders), tell))

    def listening() -> None:
        _log.info("listening on %s with %d workers", options.listen, options.workers)
        if on_listening is not None:
            on_listening(options.listen)

    supervisor = Supervisor(
        options.workers,
        serve,
        options.drain_delay_s + options.grace_s,
        max_hang_s=options.max_hang_s,
    )
    return Ending.CUT_OFF if supervisor.run(listening) else Ending.CLEAN


def _code(ending: Ending) -> int:
    return int(ending is Ending.CUT_OFF)


def _end(ending: Ending) -> None:
    if ending is not Ending.CLEAN:  # a computation under way would hold up an ordinary exit
        logging.shutdown()
        flush_streams()
        os._exit(_code(ending))
