"""Clients that others wrote work unmodified: Triton's, KServe's, and buf from the command line."""

import json

import pytest

SERVICE = "inference.GRPCInferenceService"


@pytest.mark.parametrize("script", ["triton_sync.py", "triton_aio.py", "kserve_grpc.py"])
def test_a_client_works_unmodified(run, address, script):
    run(script, address)


def test_every_field_is_where_tritons_clients_look_for_it(run):
    """And a process may hold both copies of the protocol."""
    run("same_protocol.py")


def test_buf_asks_by_hand(run, address):
    """It learns the protocol from the server's reflection; the contents are for people."""

    def curl(method, **question):
        url = f"http://{address}/{SERVICE}/{method}"
        plain = ("curl", "--http2-prior-knowledge", "--protocol", "grpc")
        return json.loads(run("buf", *plain, "--data", json.dumps(question), url))

    assert curl("ServerReady") == {"ready": True}
    answer = curl(
        "ModelInfer",
        model_name="ende",
        inputs=[
            {
                "name": "sentences",
                "datatype": "BYTES",
                "shape": [1],
                "contents": {"bytes_contents": ["b25lIHR3bw=="]},  # "one two" in base64
            }
        ],
        outputs=[{"name": "translations"}, {"name": "num_translations"}],
        parameters={"binary_data_output": {"bool_param": False}},
    )
    translations, counts = answer["outputs"]
    assert translations["contents"] == {"bytesContents": ["ZW5vIG93dA=="]}  # "eno owt"
    assert counts["contents"] == {"int64Contents": ["1"]}
