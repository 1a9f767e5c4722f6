"""Numbers cross the wire to the last bit, in either form, and broken ones become sentences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.protos.arrays import pack_doubles, pack_integers, unpack_doubles, unpack_integers
from foretell.protos.v1.arrays_pb2 import Doubles, Integers

any_double = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
any_integer = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(any_double), st.booleans())
def test_doubles_come_back_to_the_last_bit(numbers, raw):
    values = np.array(numbers, np.float64)
    message = Doubles.FromString(pack_doubles(values, raw=raw).SerializeToString())
    problems = []
    assert unpack_doubles(message, "x", problems).tobytes() == values.tobytes()
    assert not problems


@given(st.lists(any_integer), st.booleans())
def test_integers_come_back(numbers, raw):
    values = np.array(numbers, np.int64)
    message = Integers.FromString(pack_integers(values, raw=raw).SerializeToString())
    problems = []
    np.testing.assert_array_equal(unpack_integers(message, "x", problems), values)
    assert not problems


def test_arrays_are_packed_in_c_order_whatever_their_layout():
    values = np.arange(6.0).reshape(2, 3)
    for layout in (values, np.asfortranarray(values), values[:, ::-1][:, ::-1]):
        assert unpack_doubles(pack_doubles(layout), "x", []).tolist() == [0, 1, 2, 3, 4, 5]
        assert unpack_doubles(pack_doubles(layout, raw=False), "x", []).tolist() == [
            0,
            1,
            2,
            3,
            4,
            5,
        ]


def test_raw_is_little_endian_whatever_the_machine():
    assert pack_doubles(np.array([1.0], ">f8")).raw == b"\x00\x00\x00\x00\x00\x00\xf0\x3f"
    assert pack_integers(np.array([1])).raw == b"\x01\x00\x00\x00\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Doubles(raw=b"123"), "x.raw has 3 bytes, which is no multiple of 8"),
        (Doubles(raw=b"12345678", values=[1]), "x has both values and raw"),
    ],
)
def test_what_is_no_array_is_told(message, problem):
    problems = []
    assert unpack_doubles(message, "x", problems).size == 0
    assert len(problems) == 1
    assert problems[0].startswith(problem)
