"""Asks a server with kserve's gRPC client; the address is the argument."""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferInput, InferRequest
from kserve.protocol.grpc import grpc_predict_v2_pb2 as wire


def request(model, name, datatype, array, **parameters):
    given = InferInput(name=name, shape=list(array.shape), datatype=datatype)
    given.set_data_from_numpy(array)
    return InferRequest(
        model_name=model, infer_inputs=[given], request_id="7", parameters=parameters or None
    )


async def refusal(call):
    try:
        await call
    except Exception as error:  # it wraps some and not others
        return str(error)
    return "not refused"


async def main():
    async with InferenceGRPCClient(sys.argv[1]) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("ende")
        assert not await client.is_model_ready("nope")

        context = np.array([[1.0, 2.0], [3.0, 4.0]])
        answer = await client.infer(request("demand", "context", "FP64", context, horizon=2))
        found = {one.name: one for one in answer.outputs}
        assert found["forecast"].as_numpy().tolist() == [[2.0, 2.0], [4.0, 4.0]]
        assert answer.id == "7"

        # Lists travel as typed contents.
        given = InferInput("sentences", [2], "BYTES", data=["one", "two"])
        answer = await client.infer(InferRequest("ende", [given], parameters={"patience": "2.0"}))
        found = {one.name: one for one in answer.outputs}
        assert found["translations"].as_numpy().ravel().tolist() == [b"eno", b"owt"]

        told = await refusal(client.infer(request("nope", "context", "FP64", context)))
        assert "Request for unknown model: 'nope' is not found" in told

        # Its own layout of this request names the model in field 1.
        load = wire.RepositoryModelLoadRequest(model_name="ende")
        assert "not allowed" in await refusal(client._client_stub.RepositoryModelLoad(load))


asyncio.run(main())
