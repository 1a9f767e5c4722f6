"""Writes the protocol as tritonclient has it, a set of descriptors, to the file that is named."""

import sys
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tritonclient.grpc import model_config_pb2, service_pb2

files = FileDescriptorSet()
for module in (model_config_pb2, service_pb2):
    module.DESCRIPTOR.CopyToProto(files.file.add())
Path(sys.argv[1]).write_bytes(files.SerializeToString())
