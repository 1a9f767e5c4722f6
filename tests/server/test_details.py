"""What errors say to programs: a reason that doesn't change, fields, when to try again."""

from urllib.parse import quote

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from foretell.data.errors import ModelNotFoundError, OptionError, TableError
from foretell.protos.v1.forecaster_pb2 import ForecastRequest
from foretell.protos.v1.forecaster_pb2_grpc import ForecasterStub
from foretell.server.details import TRAILER, status_details
from foretell.server.errors import RequestError, fit_status, status_of

INVALID = grpc.StatusCode.INVALID_ARGUMENT
KINDS = {
    kind.DESCRIPTOR.full_name: kind
    for kind in (
        error_details_pb2.ErrorInfo,
        error_details_pb2.RequestInfo,
        error_details_pb2.BadRequest,
        error_details_pb2.RetryInfo,
    )
}


def read_trailers(trailers):
    """The status, and its details by name."""
    (content,) = (value for key, value in trailers if key == TRAILER)
    status = status_pb2.Status.FromString(content)
    parts = {}
    for packed in status.details:
        name = packed.type_url.rpartition("/")[2]
        parts[name.rpartition(".")[2]] = KINDS[name].FromString(packed.value)
    return status, parts


def details_of(error):
    code, text = status_of(error, "5f")
    status, parts = read_trailers(status_details(error, code, text, "5f"))
    assert (status.code, status.message) == (code.value[0], text)  # clients check that they agree
    return parts


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelNotFoundError("x"), "MODEL_NOT_FOUND"),
        (RequestError("x"), "REQUEST"),
        (OptionError("x"), "OPTION"),
        (TableError("x"), "TABLE"),
        (ValueError("secret"), "INTERNAL"),
        (KeyError("secret"), "INTERNAL"),
    ],
)
def test_the_reason_is_the_kind_of_error_and_a_fault_tells_nothing(error, reason):
    parts = details_of(error)
    assert (parts["ErrorInfo"].reason, parts["ErrorInfo"].domain) == (reason, "foretell")
    assert parts["RequestInfo"].request_id == "5f"
    assert "secret" not in str(parts)


def test_problems_of_a_request_are_told_by_field():
    problems = [
        "history.ids is empty; send at least one series.",
        "options[3]: beam_size is 99; it must be 1 to 64.",
        "sentences has 3 entries; send fewer.",
        "the request's 12 bytes are no message.",
        "nonsense is no field.",
    ]
    violations = details_of(RequestError(problems))["BadRequest"].field_violations
    assert [one.field for one in violations] == ["history.ids", "options[3]", "sentences"]
    assert [one.description for one in violations] == problems[:3]


def test_an_error_that_passes_says_when_to_try_again():
    error = OptionError("x")
    error.retry_after_s = 1.25
    delay = details_of(error)["RetryInfo"].retry_delay
    assert (delay.seconds, delay.nanos) == (1, 250_000_000)
    assert "RetryInfo" not in details_of(OptionError("x"))


@given(st.lists(st.text(max_size=3000).map("history.ids is {}".format), min_size=1, max_size=30))
def test_text_and_details_always_fit_their_headers(problems):
    """Headers above 8 KiB make a client drop the status with all of it."""
    error = RequestError(problems)
    text = fit_status(problems)
    trailers = status_details(error, INVALID, text, "5f" * 8)
    size_bytes = len(quote(text)) + sum(len(value) * 4 / 3 + 3 for _, value in trailers)
    assert size_bytes < 7500


def test_a_caller_finds_them_in_the_trailers(serving, make_forecaster):
    with serving(demand=make_forecaster()) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            ForecasterStub(channel).Forecast(ForecastRequest(horizon=0))
        status, parts = read_trailers(caught.value.trailing_metadata())
    assert status.message == caught.value.details()
    fields = {one.field for one in parts["BadRequest"].field_violations}
    assert {"horizon", "history.ids"} <= fields
    assert len(parts["RequestInfo"].request_id) >= 16
