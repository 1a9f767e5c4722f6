"""The server: foretell's services, health and reflection on one port, from start to drained end."""

import asyncio
import contextlib
from enum import Enum
from functools import partial

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from foretell.protos.inference import inference_pb2
from foretell.protos.inference.inference_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from foretell.protos.v1 import forecaster_pb2, models_pb2, translator_pb2
from foretell.protos.v1.forecaster_pb2_grpc import add_ForecasterServicer_to_server
from foretell.protos.v1.models_pb2_grpc import add_ModelsServicer_to_server
from foretell.protos.v1.translator_pb2_grpc import add_TranslatorServicer_to_server
from foretell.server.access.authorisation import Authorisation
from foretell.server.access.certificates import read_certificates
from foretell.server.access.tokens import TokenFile
from foretell.server.calls.answering import Answering
from foretell.server.calls.drain import Drain
from foretell.server.calls.receiving import AroundCalls, ReadingInside
from foretell.server.calls.request_sizes import RequestSizes
from foretell.server.calls.telemetry import Telemetry
from foretell.server.errors import errors_as_status
from foretell.server.http.guard import HttpGuard
from foretell.server.http.model_states import read_states
from foretell.server.http.status_port import HEALTH, StatusPort
from foretell.server.inference.reflection import BothPools
from foretell.server.inference.service import InferenceService
from foretell.server.listen import bind
from foretell.server.models.repository import Repository
from foretell.server.options import ServerOptions
from foretell.server.security import takes_compressed
from foretell.server.services.forecaster import ForecasterService
from foretell.server.services.model_health import ModelHealth
from foretell.server.services.models import ModelsService
from foretell.server.services.translator import TranslatorService
from foretell.server.telemetry.peers import Peers
from foretell.server.telemetry.tracing import Tracing
from foretell.server.wakeups import taken_together

_FLUSH_S = 0.5  # health watchers never end by themselves; they get this long to hear the news

_END_S = 5.0  # gRPC ends calls that are cut off at once; on a busy machine somewhat later

# Bits of gRPC's algorithms: none, deflate, gzip.
_NONE, _ALL = 0b001, 0b111

SERVICES = (
    forecaster_pb2.DESCRIPTOR.services_by_name["Forecaster"].full_name,
    translator_pb2.DESCRIPTOR.services_by_name["Translator"].full_name,
    models_pb2.DESCRIPTOR.services_by_name["Models"].full_name,
    inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name,
)


class Ending(Enum):
    """How a server stopped; the value says it for the log."""

    CLEAN = "stopped"
    ABANDONED = "stopped; nobody waits for what is still being computed"
    CUT_OFF = "stopped; some requests were cut off"


class Application:
    """A server of loaded models; all methods belong to one event loop.

    Making it reads certificates and tokens, and raises what is wrong with them: CertificateError,
    TokenFileError.

    Attributes:
        address: Where it listens, once started: the host as told, the port as bound.
        status: The HTTP port, which has an address of its own; None where there is none.
    """

    def __init__(
        self, repository: Repository, options: ServerOptions, tracing: Tracing | None = None
    ) -> None:
        self.address = options.listen
        self._repository = repository
        self._options = options
        self._tracing = tracing or Tracing()
        self._answering = Answering(options, repository.observer, self._tracing)
        self._drain = Drain()
        self._is_stopping = False
        self._telling: asyncio.Task[None] | None = None
        security = options.security
        self._certificates = read_certificates(security)
        tokens = None if security.tokens is None else TokenFile(security.tokens)
        guard = HttpGuard(
            self._certificates,
            tokens,
            health=HEALTH,
            health_needs_token=security.health_needs_token,
        )
        self.status = (
            StatusPort(
                options.metrics,
                repository.observer,
                partial(read_states, repository),
                self._is_serving,
                guard=None if security.metrics_open else guard,
            )
            if options.metrics
            else None
        )
        self._health = ModelHealth(repository, SERVICES)
        self._sizes = RequestSizes(options)
        with taken_together(asyncio.get_running_loop()):
            self._server = grpc.aio.server(
                interceptors=[
                    Telemetry(repository.observer, self._tracing),
                    AroundCalls(self._drain, spare_libraries=True),
                    AroundCalls(errors_as_status),
                    Authorisation(tokens, health_needs_token=security.health_needs_token),
                    ReadingInside(options.max_fields, self._sizes),
                ],
                options=_connection_options(options),
            )

    async def start(self) -> None:
        """Bind the port, serve, and report every model that serves as serving.

        Raises:
            ListenError: The address can't be had.
        """
        repository, options = self._repository, self._options
        answering = self._answering
        add_ForecasterServicer_to_server(
            ForecasterService(repository, answering, options), self._server
        )
        add_TranslatorServicer_to_server(
            TranslatorService(repository, answering, options), self._server
        )
        add_ModelsServicer_to_server(ModelsService(repository, options), self._server)
        self._inference = InferenceService(repository, answering, options, self._sizes)
        add_GRPCInferenceServiceServicer_to_server(self._inference, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, self._server)
        reflection.enable_server_reflection(
            (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server, BothPools()
        )
        credentials = None if self._certificates is None else self._certificates.credentials()
        self.address = bind(self._server, options.listen, credentials, shared=options.workers > 1)
        if options.counts_folder is not None:
            peers = Peers(options.counts_folder, options.worker, repository.observer)
            self._telling = asyncio.create_task(peers.keep_telling())
        if self.status is not None:
            await self.status.start(self.address, shared=options.workers > 1)
        self._health.start()
        await self._server.start()
        repository.start()

    async def stop(self, hurry: asyncio.Event, *, delay_s: float = 0.0) -> Ending:
        """Stop: health turns to NOT_SERVING; after a delay new calls are refused; calls finish.

        Args:
            hurry: Ends the delay when set, and cuts off the calls in work before the grace is over.
            delay_s: Seconds in which new calls are still answered: so long it may take until
                everybody who sends them here knows.
        """
        self._inference.is_stopping = self._is_stopping = True
        self._health.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), delay_s)
        is_clean = await self._drain.finish(self._options.grace_s, hurry)
        await self._drain.refuse_the_last(hurry)
        await self._end_calls()
        is_idle = await asyncio.to_thread(self._repository.stop, _FLUSH_S)
        if self._telling is not None:
            self._telling.cancel()
        if self.status is not None:
            await self.status.stop()
        await asyncio.to_thread(self._tracing.stop)
        if not is_clean:
            return Ending.CUT_OFF
        # A caller may have given up on a computation, which goes on.
        has_ended = await asyncio.to_thread(self._answering.close, _FLUSH_S)
        return Ending.CLEAN if has_ended and is_idle else Ending.ABANDONED

    async def _end_calls(self) -> None:
        """End what health and reflection still have; wait for no caller without a bound."""
        ending = asyncio.create_task(self._server.stop(_FLUSH_S))
        await asyncio.wait([ending], timeout=_FLUSH_S + _END_S)

    def _is_serving(self) -> bool:
        return not self._is_stopping and bool(self._repository.models)


def _connection_options(options: ServerOptions) -> list[tuple[str, int]]:
    """What gRPC is told of its connections."""
    is_unpacking = takes_compressed(options.listen, options.security)
    return [
        ("grpc.so_reuseport", int(options.workers > 1)),
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", options.max_message_bytes),
        ("grpc.max_concurrent_streams", options.max_streams),
        ("grpc.compression_enabled_algorithms_bitset", _ALL if is_unpacking else _NONE),
        # Clients and load balancers ping every 10 s; gRPC would hang up on them.
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # gRPC spreads it by a tenth; calls in work end on the old connection.
        ("grpc.max_connection_age_ms", options.connection_age_ms),
    ]
