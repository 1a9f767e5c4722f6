"""Which status a caller gets, and that its text always arrives."""

import asyncio
from urllib.parse import quote

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import (
    BundleError,
    FrequencyError,
    ModelNotFoundError,
    OptionError,
    TableError,
)
from foretell.server.errors import (
    MessageSizeError,
    ModelKindError,
    RequestError,
    errors_as_status,
    fit_status,
    status_of,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (TableError("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (FrequencyError("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (OptionError("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (ModelNotFoundError("x"), grpc.StatusCode.NOT_FOUND),
        (ModelKindError("x"), grpc.StatusCode.FAILED_PRECONDITION),
        (MessageSizeError("x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_a_callers_mistake_is_told_in_full(error, code):
    assert status_of(error, "id") == (code, "x")


@pytest.mark.parametrize(
    "error", [BundleError("x"), ValueError("x"), KeyError("x"), MemoryError("x")]
)
def test_everything_else_is_a_fault_of_ours(error):
    assert status_of(error, "5f") == (grpc.StatusCode.INTERNAL, "internal error, request id 5f")


@given(st.lists(st.text(max_size=3000), min_size=1, max_size=50))
def test_a_status_always_fits_its_header(problems):
    """A header above 8 KiB makes the client drop the status with its text."""
    assert len(quote(fit_status(problems))) < 6000


def test_what_does_not_fit_is_counted():
    text = fit_status([f"problem {i} " + "x" * 1100 for i in range(10)])
    assert text.startswith("problem 0")
    assert text.endswith("... and 7 more.")


def test_one_long_problem_is_cut():
    assert fit_status(["x" * 4094]) == "x" * 341 + " ..."
    assert fit_status(["x" * 4093]) == "x" * 4093
    assert fit_status(["é" * 10_000]) == "é" * 341 + " ..."


@pytest.mark.parametrize("error", [grpc.aio.InternalError("sent"), grpc.aio.UsageError("over")])
def test_what_gRPC_raises_of_a_caller_who_is_gone_is_no_fault_of_ours(error, caplog):
    """Nobody is left to be told, and the log has nothing to tell; the call counts as cancelled."""

    async def write():
        async with errors_as_status("/a.Service/Method", None):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(write())
    assert not caplog.records
