"""Asks a server with tritonclient's asyncio client; the address is the argument."""

import asyncio
import sys

import numpy as np
import tritonclient.grpc.aio as triton
from tritonclient.utils import InferenceServerException


def sentence(text):
    given = triton.InferInput("sentences", [1], "BYTES")
    given.set_data_from_numpy(np.array([text.encode()], dtype=object))
    return [given]


async def status(call):
    try:
        await call
    except InferenceServerException as error:
        return error.status()
    return None


async def requests():
    yield {"model_name": "ende", "inputs": sentence("one"), "request_id": "a"}
    yield {"model_name": "nope", "inputs": sentence("one"), "request_id": "b"}
    yield {"model_name": "ende", "inputs": sentence("two"), "request_id": "c"}


async def main():
    async with triton.InferenceServerClient(sys.argv[1]) as client:
        assert await client.is_server_ready()
        assert await client.is_model_ready("demand")
        assert (await client.get_model_config("demand")).config.name == "demand"
        words = [f"word{number}" for number in range(20)]
        answers = await asyncio.gather(*(client.infer("ende", sentence(word)) for word in words))
        for word, answer in zip(words, answers, strict=True):
            assert answer.as_numpy("translations")[0, 0].decode() == word[::-1]
        assert await status(client.infer("nope", sentence("one"))) == "StatusCode.NOT_FOUND"
        texts, errors = {}, []
        async for result, error in client.stream_infer(requests()):
            if error is not None:
                errors.append(error.message())
            else:  # whichever is ready first comes first
                texts[result.get_response().id] = result.as_numpy("translations")[0, 0]
        assert texts == {"a": b"eno", "c": b"owt"}, texts
        (text,) = errors
        assert text.startswith("[request id: b]"), text
        assert "Request for unknown model: 'nope' is not found" in text


asyncio.run(main())
