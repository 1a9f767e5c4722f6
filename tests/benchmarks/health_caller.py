"""Asks a server for its health, again and again, and a server that does nothing else beside it."""

import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

EVERY_S = 0.1
_SERVING = health_pb2.HealthCheckResponse.SERVING


class HealthCaller:
    """Two processes: one asks, the other is the bare server that shows what the machine takes."""

    def __init__(self, address: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._bare, bare = spawn.Pipe()
        self._ours, theirs = spawn.Pipe()
        self._address = address
        self._server = spawn.Process(target=serve_bare, args=(bare,), daemon=True)
        self._caller = spawn.Process(target=ask_both, args=(theirs,), daemon=True)

    def start(self) -> None:
        """Begin; done when both have been asked once."""
        self._server.start()
        self._caller.start()
        self._ours.send((self._address, self._bare.recv()))
        self._ours.recv()

    def stop(self) -> tuple[list[float], list[float]]:
        """End; seconds that each call took, of the server and of the bare one."""
        self._ours.send("enough")
        found: tuple[list[float], list[float]] = self._ours.recv()
        self._bare.send("enough")
        self._caller.join()
        self._server.join()
        return found


def ask_both(told: Connection) -> None:
    """Ask both in turn until told to stop; send the seconds."""
    addresses = told.recv()
    channels = [grpc.insecure_channel(address) for address in addresses]
    stubs = [health_pb2_grpc.HealthStub(channel) for channel in channels]
    request = health_pb2.HealthCheckRequest()
    for stub in stubs:
        stub.Check(request, wait_for_ready=True)  # the connection is there
    told.send("asking")
    seconds: tuple[list[float], list[float]] = ([], [])
    while not told.poll(EVERY_S):
        for stub, taken in zip(stubs, seconds, strict=True):
            start = time.perf_counter()
            status = stub.Check(request, timeout=60).status
            taken.append(time.perf_counter() - start)
            assert status == _SERVING
    told.send(seconds)


def serve_bare(told: Connection) -> None:
    """Serve health alone, and nothing else, until told to stop."""

    async def serve() -> None:
        server = grpc.aio.server()
        servicer = health.aio.HealthServicer()
        await servicer.set("", _SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        told.send(f"127.0.0.1:{port}")
        await asyncio.to_thread(told.recv)
        await server.stop(None)

    asyncio.run(serve())
