"""From a training run to a proven ONNX bundle. Needs the extra [train]."""
