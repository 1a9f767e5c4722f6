"""The committed stubs are those of the .proto files, and every field says what it means."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, json_format

from foretell.protos.v1 import (
    arrays_pb2,
    forecaster_pb2,
    forecaster_pb2_grpc,
    models_pb2,
    models_pb2_grpc,
    translator_pb2,
    translator_pb2_grpc,
)

FOLDER = Path(__file__).parents[2] / "protos"
STUBS = {
    stub.DESCRIPTOR.name: stub for stub in (arrays_pb2, forecaster_pb2, models_pb2, translator_pb2)
}
GRPC_STUBS = (forecaster_pb2_grpc, models_pb2_grpc, translator_pb2_grpc)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """File descriptors fresh from the .proto files, whichever compiler is installed."""
    target = tmp_path_factory.mktemp("protos") / "all.bin"
    subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "grpc_tools.protoc"),
            f"-Iforetell/protos={FOLDER}",
            "--include_source_info",
            f"--descriptor_set_out={target}",
            *(f"foretell/protos/v1/{path.name}" for path in (FOLDER / "v1").glob("*.proto")),
        ],
        check=True,
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
    return {file.name: file for file in files}


def plain(file):
    """A file descriptor without what compilers add as they like."""
    file = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    file.ClearField("source_code_info")
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    return file


def test_the_stubs_are_fresh(compiled):
    """Stale stubs serve an old wire while everybody reads the new one: run `make protos`."""
    assert set(compiled) == set(STUBS)
    for name, stub in STUBS.items():
        committed = descriptor_pb2.FileDescriptorProto.FromString(stub.DESCRIPTOR.serialized_pb)
        assert plain(compiled[name]) == plain(committed), f"{name}: run `make protos`"


def test_every_method_has_its_stub(compiled):
    for file in compiled.values():
        for service in file.service:
            (module,) = (m for m in GRPC_STUBS if hasattr(m, f"{service.name}Servicer"))
            servicer = getattr(module, f"{service.name}Servicer")
            assert {name for name in vars(servicer) if not name.startswith("_")} == {
                method.name for method in service.method
            }


def test_everything_on_the_wire_is_commented(compiled):
    """Clients in other languages have nothing but these files to read."""
    for file in compiled.values():
        for location in file.source_code_info.location:
            path = list(location.path)
            # 4 message, 5 enum, 6 service at the top; inside 2 field, method or value, 4 enum
            declares = (len(path) in (2, 4) and path[0] in (4, 5, 6)) or (
                len(path) == 6 and path[2] == 4
            )
            if declares and (len(path) == 2 or path[-2] in (2, 4)):
                assert location.leading_comments.strip(), f"{file.name}: no comment at {path}"


def test_the_stubs_run_with_the_oldest_protobuf():
    """Generated code refuses a runtime older than its generator; 6.31 is our lower bound."""
    for name in STUBS:
        text = (FOLDER / "v1" / Path(name).name.replace(".proto", "_pb2.py")).read_text()
        assert "# Protobuf Python Version: 6.31." in text
    for module in GRPC_STUBS:
        assert module.GRPC_GENERATED_VERSION == "1.74.0"


def test_the_questions_of_the_readme_are_some():
    """People copy them to try a server by hand."""
    text = (FOLDER / "README.md").read_text()
    forecast, translate, stream = re.findall(r"-d '(.*?)'", text, re.DOTALL)
    request = json_format.Parse(forecast, forecaster_pb2.ForecastRequest())
    assert list(request.history.target.values) == [10, 12, 11]
    assert sum(request.history.lengths.values) == len(request.history.stamps.values) == 3
    assert json_format.Parse(translate, translator_pb2.TranslateRequest()).options[0].n_best == 3
    assert json_format.Parse(stream, translator_pb2.TranslateStreamRequest()).sentence
