"""A packed file is compared by its bytes: they must come from the text, not from how it came."""

import gzip
import io
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from foretell.jobs import packing
from foretell.jobs.packing import packed_writer


def packed(pieces):
    file = io.BytesIO()
    with packed_writer(file) as write:
        for piece in pieces:
            write(piece)
    return file.getvalue()


@given(st.lists(st.binary(max_size=40), max_size=20), st.lists(st.integers(0, 400), max_size=9))
def test_the_same_bytes_however_they_come(pieces, cuts):
    whole = b"".join(pieces)
    marks = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    others = [whole[a:b] for a, b in pairwise(marks)]
    block, packing._BLOCK_BYTES = packing._BLOCK_BYTES, 16
    try:
        assert packed(pieces) == packed(others)
    finally:
        packing._BLOCK_BYTES = block
    assert gzip.decompress(packed(pieces)) == whole


def test_neither_name_nor_time_is_in_it():
    header = packed([b"x"])[:10]
    assert header[:4] == b"\x1f\x8b\x08\x00"  # no name follows
    assert header[4:8] == bytes(4)
