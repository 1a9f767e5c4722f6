"""How good a model is: rolling windows, rivals, measures."""
