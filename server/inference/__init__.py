"""The Open Inference Protocol over every model and every graph."""
