"""Requests are checked whole before anything of them is used: sizes, names, zones, stamps."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.bundles.bundle import ForecasterSpec
from foretell.protos.arrays import pack_doubles, pack_integers
from foretell.protos.v1.arrays_pb2 import Doubles, Integers, StampKind
from foretell.protos.v1.forecaster_pb2 import ForecastRequest, History, NamedDoubles, SeriesError
from foretell.server.errors import RequestError
from foretell.server.services.forecaster_codec import ForecastTask, answer_bytes, read_request

SPEC = ForecasterSpec(
    context_length=64,
    patch_length=8,
    horizon=16,
    frequency="any",
    season_length=1,
    quantile_levels=(0.1, 0.5, 0.9),
)


@pytest.fixture
def spec():
    return SPEC


@pytest.fixture
def covariate_spec():
    return replace(
        SPEC, future_covariates=("price",), past_covariates=("footfall",), static=("area",)
    )


def test_a_request_becomes_rows(make_request, spec):
    request = make_request({"a": [1, float("nan"), 3], "b": [4, 5]}, horizon=7, raw=True)
    task = read_request(request, spec)
    assert list(task.rows.ids) == ["a", "b"]
    assert task.rows.indptr.tolist() == [0, 3, 5]
    np.testing.assert_array_equal(task.rows.target, [1, np.nan, 3, 4, 5])
    assert task.rows.positions.tolist() == [0, 1]
    assert task.future is None
    assert task.options.horizon == 7
    assert task.options.freq == "D"


@pytest.mark.parametrize(
    "change",
    [
        lambda r, text: r.history.ids.extend([text, text]),
        lambda r, text: setattr(r.history, "time_zone", text),
        lambda r, text: r.history.covariates.append(NamedDoubles(name=text)),
        lambda r, text: r.history.static.append(NamedDoubles(name=text)),
        lambda r, text: setattr(r, "frequency", text),
    ],
)
def test_what_a_refusal_says_again_is_short(make_request, spec, change):
    request = make_request({"a": [1, 2, 3]})
    change(request, "x" * 1_000_000)
    with pytest.raises(RequestError) as error:
        read_request(request, spec)
    assert "x" * 30 in str(error.value)
    assert len(str(error.value)) < 2000


def test_raw_and_typed_numbers_are_the_same_request(make_request, spec):
    series = {"a": [0.1, 1e-300, -0.0, float("nan")], "b": [2**53 + 1.0]}
    raw, typed = (read_request(make_request(series, raw=raw), spec) for raw in (True, False))
    assert raw.rows.target.tobytes() == typed.rows.target.tobytes()
    assert raw.rows.stamps.tobytes() == typed.rows.stamps.tobytes()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda r: r.history.target.values.append(1), "target has 4 numbers, but .* ask for 3"),
        (lambda r: r.history.stamps.values.pop(), "stamps has 2 numbers, but .* ask for 3"),
        (lambda r: r.history.lengths.values.append(0), "lengths has 3 numbers, but .* ask for 2"),
        (lambda r: r.history.lengths.CopyFrom(Integers(values=[-1, 4])), "numbers below 0"),
        (lambda r: r.history.lengths.CopyFrom(Integers(values=[2**62, 2**62])), "below 0 or above"),
        (lambda r: r.history.target.CopyFrom(Doubles(raw=b"1234567")), r"raw has 7 bytes"),
        (lambda r: r.history.target.CopyFrom(Doubles(raw=b"8" * 8, values=[1])), "both values and"),
        (lambda r: r.history.ids.__setitem__(1, "a"), "ids has 'a' twice"),
        (lambda r: r.history.ClearField("stamp_kind"), "stamp_kind is missing"),
        (lambda r: setattr(r.history, "time_zone", "Europe/Berlin"), "not STAMP_KIND_ZONED"),
        (lambda r: setattr(r, "horizon", 0), "horizon is 0; it must be 1 to 100,000 steps"),
        (lambda r: r.quantile_levels.values.extend([0.5, 0.5]), "name a level twice"),
        (lambda r: r.quantile_levels.values.extend([float("nan")]), "is not inside"),
        (
            lambda r: r.history.covariates.append(NamedDoubles(name="price")),
            "has 'price', which this model doesn't take; it takes none",
        ),
        (lambda r: r.future.ids.append("a"), "takes no known-future covariates"),
        (lambda r: r.ClearField("history"), "history.ids is empty"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make_request, spec, change, text):
    request = make_request({"a": [1, 2], "b": [3]})
    change(request)
    with pytest.raises(RequestError, match=text):
        read_request(request, spec)


def test_all_problems_are_told_at_once(make_request, spec):
    request = make_request({"a": [1, 2], "b": [3]}, horizon=0)
    request.history.target.values.append(1)
    request.history.ClearField("stamp_kind")
    with pytest.raises(RequestError) as caught:
        read_request(request, spec)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "zone", ["Mars/Base", "../../etc/passwd", "/etc/localtime", "dateutil//etc/passwd", "x" * 5000]
)
def test_a_zone_is_a_name_and_never_a_path(make_request, spec, zone):
    request = make_request({"a": [1, 2]})
    request.history.stamp_kind = StampKind.STAMP_KIND_ZONED
    request.history.time_zone = zone
    with pytest.raises(RequestError, match="zone") as caught:
        read_request(request, spec)
    assert len(str(caught.value)) < 300


def test_zoned_stamps_without_a_zone_are_in_utc(make_request, spec):
    request = make_request({"a": [1, 2]})
    request.history.stamp_kind = StampKind.STAMP_KIND_ZONED
    assert read_request(request, spec).rows.time_zone == "UTC"


def test_missing_covariates_are_named(make_request, covariate_spec):
    with pytest.raises(RequestError) as caught:
        read_request(make_request({"a": [1, 2]}), covariate_spec)
    assert caught.value.problems == (
        "history.covariates lacks 'price', 'footfall'; this model takes 'price', 'footfall'.",
        "history.static lacks 'area'; this model takes 'area'.",
        "future is missing; this model needs 'price' over the horizon.",
    )


def test_covariates_that_are_no_numbers_refuse_their_series_alone(make_request, covariate_spec):
    request = make_request(
        {"past": [1, 2], "good": [1, 2], "static": [1, 2], "future": [1, 2]},
        covariates={"price": [1] * 8, "footfall": [1, float("inf"), *[1] * 6]},
        static={"area": [1, 1, float("nan"), 1]},
        future={"price": [*[1] * 11, -1e101]},
    )
    task = read_request(request, covariate_spec)
    assert list(task.rows.ids) == ["good", "future"]
    reasons = {refusal.unique_id: refusal.reason for refusal in task.rows.refusals}
    assert "covariate 'footfall' is inf in row 2" in reasons["past"]
    assert "static covariate 'area' is nan" in reasons["static"]
    assert [refusal.unique_id for refusal in task.future.refusals] == ["future"]


def test_rows_without_a_stamp_refuse_their_series_alone(make_request, spec):
    request = make_request({"a": [1, 2], "b": [3, 4]})
    request.history.stamps.values[1] = pd.NaT.value
    task = read_request(request, spec)
    assert [str(refusal) for refusal in task.rows.refusals] == [
        "a: row 2 has no time stamp; send one for each row."
    ]
    assert list(task.rows.ids) == ["b"]


@settings(max_examples=300)
@given(data=st.data())
def test_no_bytes_do_more_than_be_refused(data):
    """A server reads what anyone sends: whatever parses is either a task or a RequestError."""
    history = History(
        ids=["a", "b"],
        lengths=pack_integers(np.array([2, 1])),
        stamps=pack_integers(np.array([0, 1, 2])),
        stamp_kind=StampKind.STAMP_KIND_INTEGER,
        target=pack_doubles(np.array([1.0, 2.0, 3.0])),
    )
    message = bytearray(ForecastRequest(horizon=2, history=history).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(message) - 1))
        message[at] = data.draw(st.integers(0, 255))
    try:
        request = ForecastRequest.FromString(bytes(message))
    except DecodeError:
        return
    with suppress(RequestError):
        assert isinstance(read_request(request, SPEC), ForecastTask)


@given(num_series=st.integers(1, 5), horizon=st.integers(1, 50), num_levels=st.integers(0, 5))
def test_the_size_of_an_answer_is_known_before_it_is_made(num_series, horizon, num_levels):
    request = ForecastRequest(horizon=horizon)
    request.quantile_levels.values.extend(np.linspace(0.1, 0.9, num_levels))
    request.history.ids.extend(map(str, range(num_series)))
    request.history.lengths.values.extend([1] * num_series)
    request.history.stamps.values.extend([0] * num_series)
    request.history.target.values.extend([0] * num_series)
    request.history.stamp_kind = StampKind.STAMP_KIND_INTEGER
    options = read_request(request, SPEC).options
    numbers = num_series * horizon * (2 + num_levels)  # stamps, point forecast, quantiles
    assert answer_bytes(num_series, options) == 8 * numbers


@pytest.mark.parametrize(
    ("unique_id", "reason", "text"),
    [
        ("zzz", "blank.", "future.unread has 'zzz', which history.ids lacks"),
        ("a", "", "future.unread gives no reason for 'a'"),
        ("a", " \n", "future.unread gives no reason for 'a'"),
    ],
)
def test_unread_future_rows_need_a_series_and_a_reason(
    make_request, covariate_spec, unique_id, reason, text
):
    """A series that nobody refuses is forecast from half of its future, without a word."""
    request = make_request(
        {"a": [1, 2]},
        covariates={"price": [1, 2], "footfall": [1, 2]},
        static={"area": [1]},
        future={"price": [1, 2, 3]},
    )
    request.future.unread.add(position=0, unique_id=unique_id, reason=reason)
    with pytest.raises(RequestError, match=text):
        read_request(request, covariate_spec)
    request.future.unread[0].MergeFrom(SeriesError(unique_id="a", reason="price is blank."))
    (refusal,) = read_request(request, covariate_spec).future.refusals
    assert (refusal.unique_id, refusal.reason) == ("a", "price is blank.")


def test_an_unknown_frequency_hides_no_other_problem(make_request, spec):
    """Whoever mends one thing at a time asks as often as there are problems."""
    request = make_request({"a": [1, 2]})
    request.frequency = "fortnight"
    request.history.time_zone = "UTC"
    with pytest.raises(RequestError) as caught:
        read_request(request, spec)
    assert len(caught.value.problems) == 2
    assert "frequency 'fortnight' is unknown" in caught.value.problems[0]
