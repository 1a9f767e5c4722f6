"""The wire: foretell's own gRPC services and their generated stubs."""
