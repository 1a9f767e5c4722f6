"""Compares our messages with tritonclient's, field by field, in one process with it."""

from tritonclient.grpc import model_config_pb2 as their_config
from tritonclient.grpc import service_pb2 as theirs

from foretell.protos.inference import inference_pb2 as ours
from foretell.protos.inference import model_config_pb2 as our_config

# The first is the protocol's own; the others are KServe's, whose clients read them.
OURS_ALONE = {
    "inference.ModelMetadataResponse.properties",
    "inference.ModelMetadataResponse.PropertiesEntry.key",
    "inference.ModelMetadataResponse.PropertiesEntry.value",
    "inference.RepositoryModelLoadResponse.model_name",
    "inference.RepositoryModelLoadResponse.isLoaded",
    "inference.RepositoryModelUnloadResponse.model_name",
    "inference.RepositoryModelUnloadResponse.isUnloaded",
}


def fields(*files):
    found = {}
    waiting = [message for file in files for message in file.message_types_by_name.values()]
    while waiting:
        message = waiting.pop()
        waiting += message.nested_types
        for field in message.fields:
            found[field.full_name] = (
                field.number,
                field.type,
                field.is_repeated,
                field.message_type and field.message_type.full_name,
                field.enum_type and field.enum_type.full_name,
                field.containing_oneof and field.containing_oneof.name,
            )
    return found


def main():
    mine = fields(ours.DESCRIPTOR, our_config.DESCRIPTOR)
    other = fields(theirs.DESCRIPTOR, their_config.DESCRIPTOR)
    assert set(mine) - set(other) == OURS_ALONE, set(mine) - set(other)
    different = {
        name: (mine[name], other[name])
        for name in mine
        if name in other and mine[name] != other[name]
    }
    assert not different
    for enum in our_config.DESCRIPTOR.enum_types_by_name.values():
        same = their_config.DESCRIPTOR.enum_types_by_name[enum.name]
        assert {(v.name, v.number) for v in enum.values} == {
            (v.name, v.number) for v in same.values
        }
    (service,) = ours.DESCRIPTOR.services_by_name.values()
    for method in service.methods:
        same = theirs.DESCRIPTOR.services_by_name[service.name].methods_by_name[method.name]
        assert method.input_type.full_name == same.input_type.full_name
        assert method.output_type.full_name == same.output_type.full_name
        assert method.client_streaming == same.client_streaming
        assert method.server_streaming == same.server_streaming


main()
