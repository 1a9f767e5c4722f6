"""gRPC's wake-ups: however many come at once, the next iteration has taken them all."""

import asyncio
import socket

import grpc

from foretell.server.wakeups import taken_together

STREAMS, MESSAGES = 50, 60


def waiting(wakes):
    try:
        return len(wakes.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return 0


def test_all_bytes_are_taken_in_one_iteration():
    ours, theirs = socket.socketpair()
    left = []

    async def run():
        loop = asyncio.get_running_loop()
        plain = loop.add_reader
        with taken_together(loop):
            loop.add_reader(ours, lambda number: left.append((number, ours.recv(1))), 7)
        assert loop.add_reader == plain
        for written in (1, 5, 200):
            for _ in range(written):
                theirs.send(b"1")
            await asyncio.sleep(0)  # goes on before the reader of this iteration
            await asyncio.sleep(0)
            assert not waiting(ours)
        loop.remove_reader(ours)

    with ours, theirs:
        asyncio.run(run())
    assert left == [(7, b"1")] * 206


def test_what_happens_while_another_loop_reads_is_told():
    """All loops of a process read one socket; who takes a byte must look at what has happened."""
    ours, theirs = socket.socketpair()
    happened, told = [], []

    def happen(what):
        happened.append(what)
        theirs.send(b"1")

    def tell():
        ours.recv(1)
        while happened:
            told.append(happened.pop(0))
        if "late" not in told:
            ours.recv(1)  # by the other loop, for which nothing is left
            happen("late")

    async def run():
        loop = asyncio.get_running_loop()
        with taken_together(loop):
            loop.add_reader(ours, tell)
        happen("first")
        happen("second")
        happen("third")
        await asyncio.sleep(0.1)
        loop.remove_reader(ours)

    with ours, theirs:
        asyncio.run(run())
    assert told == ["first", "second", "third", "late"]


def test_where_grpc_stops_halfway_it_is_called_again():
    """It does at a closed loop's event: a client in the same process that ended its `asyncio.run`.

    What else has happened would be told no sooner than something new happens.
    """
    ours, theirs = socket.socketpair()
    happened, told = [], []

    def tell():
        ours.recv(1)
        while happened:
            if (one := happened.pop(0)) == "closed":
                raise RuntimeError("Event loop is closed")
            told.append(one)

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        with taken_together(loop):
            loop.add_reader(ours, tell)
        happened.extend(["first", "closed", "second", "closed", "third"])
        for _ in happened:
            theirs.send(b"1")
        await asyncio.sleep(0.1)
        loop.remove_reader(ours)

    with ours, theirs:
        asyncio.run(run())
    assert told == ["first", "second", "third"]


def test_wakeups_of_a_real_server_never_pile_up():
    """Else its thread would wait, and new calls with it, until hundreds of iterations were over."""
    sockets = []

    async def serve():
        loop = asyncio.get_running_loop()
        add_reader = loop.add_reader

        def note(wakes, *rest):
            sockets.append(wakes)
            return add_reader(wakes, *rest)

        loop.add_reader = note
        with taken_together(loop):
            server = grpc.aio.server()

        async def answer(requests, context):
            async for request in requests:
                most.append(max(map(waiting, sockets)))
                yield request

        most = []
        handler = grpc.stream_stream_rpc_method_handler(answer)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("test.Echo", {"Say": handler})]
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()

        def ask():
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                say = channel.stream_stream("/test.Echo/Say")
                streams = [say(iter([b"hello"] * MESSAGES), timeout=60) for _ in range(STREAMS)]
                return [list(stream) for stream in streams]

        answers = await asyncio.to_thread(ask)
        await server.stop(None)
        return answers, most

    answers, most = asyncio.run(serve())
    assert answers == [[b"hello"] * MESSAGES] * STREAMS
    assert len(sockets) == 1
    assert max(most) < 4 * STREAMS, "no more than can happen in one iteration; a socket holds 278"
