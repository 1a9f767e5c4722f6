"""Packed bytes on standard input are no text: told once, not a line at a time, by any command."""

import gzip
import os

import pytest

TEXT = "seven\nnine\n" * 200
TABLE = "unique_id,ds,y\n" + "".join(f"a,2024-01-{day:02d},{day}\n" for day in range(1, 20))


@pytest.mark.parametrize(
    ("arguments", "content", "bundle"),
    [
        (["translate", "-"], TEXT, "translator_bundle_path"),
        (["score", "--src", "-", "--tgt", "in.gz"], TEXT, "translator_bundle_path"),
        (["score", "--src", "in.gz", "--tgt", "-"], TEXT, "translator_bundle_path"),
        (["forecast", "-", "--horizon", "3"], TABLE, "bundle_path"),
    ],
    ids=["translate", "score", "targets", "forecast"],
)
def test_it_is_refused_once_naming_the_ways_out(
    foretell, request, monkeypatch, arguments, content, bundle
):
    with gzip.open("in.gz", "wt") as file:
        file.write(content)
    model = request.getfixturevalue(bundle)
    with open("in.gz", encoding="utf-8") as packed:
        monkeypatch.setattr("sys.stdin", packed)
        ended = foretell(*arguments, "--model", model, "--output", "out.csv")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "error: standard input is packed by gzip, and is read as it comes; unpack it on the way "
        "(zcat FILE | foretell ...), or give the path of the packed file instead of -.\n"
    )
    assert os.listdir() == ["in.gz"]
