"""Reflection shows the Open Inference Protocol beside foretell's own, though they share no pool."""

import pytest
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc


@pytest.fixture
def ask(serving, make_forecaster):
    """Ask a server's reflection; the messages of the files that it answers with, or the error."""
    with serving(demand=make_forecaster()) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)

        def ask(**question):
            request = reflection_pb2.ServerReflectionRequest(**question)
            answer = next(stub.ServerReflectionInfo(iter([request])))
            if answer.HasField("error_response"):
                return answer.error_response.error_message
            files = map(
                descriptor_pb2.FileDescriptorProto.FromString,
                answer.file_descriptor_response.file_descriptor_proto,
            )
            return {f"{file.package}.{m.name}" for file in files for m in file.message_type}

        yield ask


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"file_containing_symbol": "inference.GRPCInferenceService"}, "inference.ModelConfig"),
        ({"file_containing_symbol": "inference.ModelConfig"}, "inference.ModelConfig"),
        ({"file_containing_symbol": "foretell.v1.Forecaster"}, "foretell.v1.ForecastRequest"),
        (
            {"file_containing_symbol": "grpc.health.v1.Health"},
            "grpc.health.v1.HealthCheckRequest",
        ),
        (
            {"file_by_filename": "foretell/protos/inference/inference.proto"},
            "inference.ModelInferRequest",
        ),
        ({"file_by_filename": "foretell/protos/v1/arrays.proto"}, "foretell.v1.Doubles"),
    ],
)
def test_files_of_both_pools_are_found_with_all_they_need(ask, question, message):
    assert message in ask(**question)


@pytest.mark.parametrize(
    "question",
    [
        {"file_containing_symbol": "inference.Nothing"},
        {"file_by_filename": "nothing.proto"},
        {
            "file_containing_extension": {
                "containing_type": "inference.ModelInferRequest",
                "extension_number": 7,
            }
        },
        {"all_extension_numbers_of_type": "inference.Nothing"},
    ],
)
def test_what_there_is_not_is_not_found(ask, question):
    assert "not found" in ask(**question)
