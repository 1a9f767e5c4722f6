"""Clients that others wrote work unmodified: Triton's, KServe's, Node's, and buf by hand."""

import json
import subprocess
from pathlib import Path

import pytest

LINKS = Path(__file__).parents[2] / "build" / "typing"  # has our .proto files where they say
SERVICE = "inference.GRPCInferenceService"


@pytest.mark.parametrize("script", ["triton_sync.py", "triton_aio.py", "kserve_grpc.py"])
def test_a_client_works_unmodified(run, address, script):
    run(script, address)


def test_every_field_is_where_tritons_clients_look_for_it(run):
    """And a process may hold both copies of the protocol."""
    run("same_protocol.py")


def test_node_asks_by_our_published_protocol(run_node, address):
    run_node("node_grpc.js", address, LINKS)


def test_node_asks_by_tritons_protocol(run, run_node, address, tmp_path):
    """Its fields have their numbers from there, whatever ours say."""
    file = tmp_path / "triton.bin"
    run("triton_protocol.py", file)
    run_node("node_grpc.js", address, file)


def test_a_machine_without_node_or_a_network_does_without(environment, monkeypatch, tmp_path):
    """The whole of CI must not hang on somebody else's registry."""
    monkeypatch.setattr(environment, "NODE_FOLDER", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="npm") as error:
        environment.make_node()
    assert "npm" in environment.reason_of(error.value)
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho first >&2\necho no network >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(subprocess.CalledProcessError) as error:
        environment.make_node()
    assert environment.reason_of(error.value) == "no network"


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
