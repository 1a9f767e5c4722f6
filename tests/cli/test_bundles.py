"""`foretell inspect` and `foretell verify`: what a bundle is, and whether it is right here."""

import json
import shutil
import sys

import pytest


@pytest.fixture
def copy(bundle_path, tmp_path):
    return shutil.copytree(bundle_path, tmp_path / "models" / "tiny" / "1")


def test_inspect_tells_purpose_inputs_and_provenance(foretell, copy):
    ended = foretell("inspect", "models/tiny")
    assert (ended.code, ended.err) == (0, "")
    for fact in (
        "forecaster, fp32",
        "any, season of 1 steps",
        "0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95",
        "context: float64 [batch, context_len]",
        "quantiles: float64 [batch, horizon, 7]",
        "num_series: 6",
        "torch: ",
        "forecaster.onnx  ",
    ):
        assert fact in ended.out


def test_inspect_tells_of_a_translator(foretell, translator_bundle_path):
    ended = foretell("inspect", translator_bundle_path)
    assert (ended.code, ended.err) == (0, "")
    for fact in (
        "translator, fp32",
        "transformer",
        "pieces, shared by source and target",
        "attention           can be asked for",
        "encoder.onnx",
        "decoder.onnx",
        "tokenizer.model  ",
        "tokens: int64 [batch, beams]",
    ):
        assert fact in ended.out


def test_inspect_json_is_the_manifest(foretell, copy):
    ended = foretell("inspect", copy, "--json")
    assert json.loads(ended.out) == json.loads((copy / "manifest.json").read_text())


def test_verify_checks_hashes_sample_and_parity(foretell_process, copy):
    ended = foretell_process("verify", copy, "--device", "cpu")
    assert ended.code == 0
    assert [line.split()[0] for line in ended.out.splitlines()] == [
        "hashes",
        "self-check",
        "parity",
    ]
    assert "CPUExecutionProvider" in ended.out
    assert ended.err.startswith("comparing the graphs with torch, case 1 of ")


@pytest.mark.parametrize("kind", ["translator", "recurrent"])
def test_verify_checks_translators_too(foretell, request, monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "torch", None)  # parity has its own tests, and takes longer
    ended = foretell("verify", request.getfixturevalue(f"{kind}_bundle_path"))
    assert ended.code == 0
    assert "self-check  the answer to the sample holds on " in ended.out


def test_verify_without_torch_says_what_it_did_not_check(foretell, copy, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    ended = foretell("verify", copy)
    assert ended.code == 0
    assert "not checked: torch is not installed" in ended.out


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_damaged_bundle_is_named(foretell, copy, command):
    (copy / "sample.json").write_text("{}")
    ended = foretell(command, copy)
    assert ended.code == 1
    assert "sample.json" in ended.err


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_no_bundle(foretell, tmp_path, command):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path, state in (("nowhere", "is missing"), ("folder", "no bundle"), ("file", "is a file")):
        ended = foretell(command, path)
        assert ended.code == 1
        assert state in ended.err
