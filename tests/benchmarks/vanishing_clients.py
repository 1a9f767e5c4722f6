"""Clients in the middle of streams, to be killed: `python vanishing_clients.py ADDRESS COUNT`.

Each has a connection of its own and has read the first answer of its stream. Of three, one has
nothing more to ask but keeps its stream open, one has asked for far more translations than have
come yet, and one as well, token by token. Prints "ready", and waits for its end.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
import known_answers as known
from live_server import connect

from foretell.data.text.number_words import english_words
from foretell.data.text.translation import TranslateOptions

_MORE = 10  # requests of one who asks far more than is answered yet


async def main(address: str, count: int) -> None:
    """Connect, read the first answers, and wait."""
    channels = [connect(address) for _ in range(count)]
    kinds = (keep_open, ask_on, ask_for_tokens)
    held = await asyncio.gather(
        *(kinds[number % 3](channel, number) for number, channel in enumerate(channels))
    )
    print("ready", flush=True)
    await asyncio.Event().wait()
    del held


async def keep_open(channel: grpc.aio.Channel, number: int) -> object:
    """Ask once, and keep the stream open."""
    call = channel.stream_stream(known.STREAM_INFER)()
    await call.write(_infer(number))
    assert await call.read() is not grpc.aio.EOF
    return call


async def ask_on(channel: grpc.aio.Channel, number: int) -> object:
    """Ask for much, and read once."""
    return await _ask_for_much(channel, _infer(number))


async def ask_for_tokens(channel: grpc.aio.Channel, number: int) -> object:
    """Ask for much, token by token, and read the first token of all."""
    return await _ask_for_much(channel, _infer(number, token_by_token=True))


async def _ask_for_much(channel: grpc.aio.Channel, content: bytes) -> object:
    async def requests() -> AsyncIterator[bytes]:
        for _ in range(_MORE):
            yield content
        await asyncio.Event().wait()  # or the stream would end with the last answer

    call = channel.stream_stream(known.STREAM_INFER)(requests())
    assert await call.read() is not grpc.aio.EOF
    return call


def _infer(number: int, *, token_by_token: bool = False) -> bytes:
    request = known.infer_translation_request([english_words(number % 1000)], TranslateOptions())
    request.parameters["stream"].bool_param = token_by_token
    content: bytes = request.SerializeToString()
    return content


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
