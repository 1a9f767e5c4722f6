"""What is learned: layers, the forecaster, losses and training. Needs the extra [train]."""
