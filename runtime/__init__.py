"""What runs: ONNX sessions and forecasting over them, in the caller's own process."""
