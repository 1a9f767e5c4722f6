"""gRPC services over the runtime."""
