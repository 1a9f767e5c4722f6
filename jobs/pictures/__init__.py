"""Pictures of forecasts, attention and gradients."""
