"""The Open Inference Protocol's stubs: fresh, and in a pool of their own."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from foretell.protos.inference import inference_pb2, inference_pb2_grpc, model_config_pb2
from foretell.protos.inference.pool import POOL

FOLDER = Path(__file__).parents[2] / "protos"
STUBS = (inference_pb2, model_config_pb2)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    target = tmp_path_factory.mktemp("inference") / "all.bin"
    subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "grpc_tools.protoc"),
            f"-Iforetell/protos={FOLDER}",
            f"--descriptor_set_out={target}",
            *(f"foretell/protos/inference/{p.name}" for p in FOLDER.glob("inference/*.proto")),
        ],
        check=True,
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    return {file.name: file for file in files}


def plain(content):
    """A file descriptor without what compilers add as they like."""
    file = descriptor_pb2.FileDescriptorProto.FromString(content)
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        waiting += message.nested_type
        for field in message.field:
            field.ClearField("json_name")
    return file


def test_the_stubs_are_fresh(compiled):
    """Stale stubs serve an old wire while everybody reads the new one: run `make protos`."""
    assert set(compiled) == {stub.DESCRIPTOR.name for stub in STUBS}
    for stub in STUBS:
        fresh = compiled[stub.DESCRIPTOR.name].SerializeToString()
        assert plain(fresh) == plain(stub.DESCRIPTOR.serialized_pb)


def test_every_method_has_its_stub(compiled):
    (service,) = compiled[inference_pb2.DESCRIPTOR.name].service
    written = vars(inference_pb2_grpc.GRPCInferenceServiceServicer)
    assert {name for name in written if not name.startswith("_")} == {
        method.name for method in service.method
    }


def test_the_default_pool_stays_free():
    """`tritonclient` registers the same names there, and a second registration is refused."""
    default = descriptor_pool.Default()
    for name in ("inference.GRPCInferenceService", "inference.ModelConfig"):
        assert POOL.FindFileContainingSymbol(name)
        with pytest.raises(KeyError):
            default.FindFileContainingSymbol(name)


def test_another_copy_of_the_package_can_be_loaded_beside_ours(compiled):
    """Or whoever calls Triton from a program that also embeds foretell can't import it."""
    script = """
import sys
from google.protobuf import descriptor_pb2, descriptor_pool
from foretell.protos.inference import inference_pb2
for file in descriptor_pb2.FileDescriptorSet.FromString(sys.stdin.buffer.read()).file:
    file.name = "another/" + file.name
    for at, name in enumerate(file.dependency):
        file.dependency[at] = "another/" + name
    descriptor_pool.Default().Add(file)
ours = inference_pb2.ModelInferRequest(model_name="ours")
assert inference_pb2.ModelInferRequest.FromString(ours.SerializeToString()) == ours
"""
    names = sorted(compiled, reverse=True)  # what is imported first
    files = descriptor_pb2.FileDescriptorSet(file=[compiled[name] for name in names])
    subprocess.run([sys.executable, "-c", script], input=files.SerializeToString(), check=True)


def test_the_stubs_run_with_the_oldest_protobuf():
    """Generated code refuses a runtime older than its generator; 6.31 is our lower bound."""
    for stub in STUBS:
        assert "# Protobuf Python Version: 6.31." in Path(stub.__file__).read_text()
    assert inference_pb2_grpc.GRPC_GENERATED_VERSION == "1.74.0"
