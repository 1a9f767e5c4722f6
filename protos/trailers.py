"""What a failed call tells beside its status."""

# Trailing metadata that names the kind of a caller's mistake, so that a client can raise the very
# error that a forecaster in its own process would have raised: the name of the error's class.
ERROR_KIND = "foretell-error-kind"
