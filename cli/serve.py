"""`foretell serve`: models behind gRPC."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from foretell.cli import parameters
from foretell.data.series.options import MAX_HORIZON

EXAMPLE = "Example: foretell serve models/ --listen 0.0.0.0:8001"


def serve(
    models: Annotated[
        Path,
        typer.Argument(
            metavar="MODELS", help="Folder of models (models/NAME/VERSION), or one of its parts."
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT|unix:PATH", help="Where to listen; port 0 takes a free one."
        ),
    ] = "127.0.0.1:8001",
    metrics: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT|next|none",
            help="HTTP port of metrics and the status page; next: the one after --listen's.",
        ),
    ] = "next",
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(metavar="text|json", help="Lines for people, or JSON."),
    ] = "text",
    log_calls: Annotated[
        Literal["failed", "all"], typer.Option(metavar="failed|all", help="Calls with a line.")
    ] = "failed",
    trace_endpoint: Annotated[
        str,
        typer.Option(
            metavar="http://HOST:PORT", help="Collector to send OpenTelemetry spans to, over OTLP."
        ),
    ] = "",
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate, PEM: talk TLS. Needs --tls-key."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its private key, PEM, no pass phrase.")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Let in only clients with a certificate of these, PEM."),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask for bearer tokens; see `foretell token`."),
    ] = None,
    health_needs_token: Annotated[
        bool, typer.Option("--health-needs-token", help="Ask for one for health too.")
    ] = False,
    metrics_open: Annotated[
        bool,
        typer.Option("--metrics-open", help="No TLS and no tokens at the HTTP port of metrics."),
    ] = False,
    compressed_requests: Annotated[
        Literal["auto", "accept", "refuse"],
        typer.Option(
            metavar="auto|accept|refuse",
            help="Unpack requests; auto: where only this machine or --tls-client-ca lets ask.",
        ),
    ] = "auto",
    device: parameters.Device = "auto",
    threads: parameters.Threads = None,
    model_control: Annotated[
        str,
        typer.Option(
            metavar="none|poll|explicit",
            help="What changes the models later on: nothing, their folder, or callers.",
        ),
    ] = "none",
    poll_s: Annotated[
        float, typer.Option(metavar="SECONDS", help="How often to look at the folder.")
    ] = 10.0,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VERSION", help="Serve this version, not the newest; may be repeated."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, help="Processes that share the port.")
    ] = 1,
    instances: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Batches of a model computed at a time; default: its threads.",
            show_default=False,
        ),
    ] = None,
    batching: Annotated[
        bool,
        typer.Option(
            "--batching/--no-batching", help="Requests of several callers may share a batch."
        ),
    ] = True,
    max_queue: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most requests that wait for a model.")
    ] = 256,
    max_queue_mib: Annotated[
        int, typer.Option(metavar="MIB", min=1, help="Most MiB of all requests for a model.")
    ] = 256,
    max_batch_s: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.001, help="Seconds after which a batch is stopped."),
    ] = 300.0,
    max_message_mib: Annotated[
        int,
        typer.Option(metavar="MIB", min=1, max=2047, help="Largest request and answer, in MiB."),
    ] = 64,
    max_series: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most series of a request to a forecaster.")
    ] = 10_000,
    max_steps: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most rows of a series.")
    ] = 1_000_000,
    max_horizon: Annotated[
        int, typer.Option(metavar="STEPS", min=1, max=MAX_HORIZON, help="Most steps ahead.")
    ] = MAX_HORIZON,
    max_sentences: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most sentences of a request to a translator.")
    ] = 1024,
    max_characters: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most characters of a sentence.")
    ] = 100_000,
    max_beam_size: Annotated[
        int, typer.Option(metavar="K", min=1, max=64, help="Largest beam.")
    ] = 64,
    max_connection_age_s: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Ask clients to connect anew after so long; 0 never."
        ),
    ] = 0.0,
    drain_delay_s: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Seconds after SIGTERM in which new requests are taken."
        ),
    ] = 5.0,
    grace_s: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Seconds for requests in work when stopped."),
    ] = 30.0,
    max_hang_s: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Replace a worker that stands still so long; 0 never."
        ),
    ] = 60.0,
) -> None:
    """Serve models over gRPC until SIGTERM or Ctrl-C.

    Of each model the newest good version is served. foretell.v1, grpc.health.v1 and reflection
    answer on one port; metrics for Prometheus and a status page on another one over HTTP. The log
    goes to standard error.
    """
    from foretell.server.models.repository import ModelControl
    from foretell.server.security import SecurityOptions
    from foretell.server.serve import serve as serve_models

    serve_models(
        models,
        listen,
        metrics=metrics,
        log_format=log_format,
        log_calls=log_calls,
        trace_endpoint=trace_endpoint,
        security=SecurityOptions(
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            tokens=tokens,
            health_needs_token=health_needs_token,
            metrics_open=metrics_open,
            compressed_requests=compressed_requests,
        ),
        device=device,
        threads=threads,
        model_control=ModelControl.parse(model_control, poll_s, pin or []),
        workers=workers,
        instances=instances,
        batching=batching,
        max_queue=max_queue,
        max_queue_bytes=max_queue_mib * 1024 * 1024,
        max_batch_s=max_batch_s,
        max_message_bytes=max_message_mib * 1024 * 1024,
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
