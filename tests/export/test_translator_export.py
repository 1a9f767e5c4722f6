"""A translator's bundle: graphs that are what they say, their proof, and all that belongs to it."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from foretell.data.bundles.bundle import read_bundle
from foretell.data.text.number_words import english_words, german_words
from foretell.data.text.tokenizer import TOKENIZER_FILE
from foretell.data.text.translation import TranslateOptions
from foretell.export import build
from foretell.export.build import export_run, prove_bundle
from foretell.export.onnx_graph import ExportError
from foretell.model.run import read_run
from foretell.runtime import load
from foretell.runtime.selfcheck import check_translator_sample
from foretell.runtime.translator import Translator

GRAPHS = ("encoder.onnx", "decoder.onnx")


@pytest.fixture(scope="module", params=["translator_bundle_path", "recurrent_bundle_path"])
def path(request) -> Path:
    return request.getfixturevalue(request.param)


class TestGraphs:
    def test_they_use_standard_operators_alone_and_no_dropout(self, translator_graphs):
        for name in GRAPHS:
            graph = onnx.load(translator_graphs / name)
            onnx.checker.check_model(graph, full_check=True)
            assert {node.domain for node in graph.graph.node} <= {"", "ai.onnx"}
            assert not {"Dropout", "RandomUniformLike"} & {n.op_type for n in graph.graph.node}

    def test_sizes_are_dynamic_and_names_are_the_manifests(self, translator_graphs):
        manifest = read_bundle(translator_graphs).manifest
        for name in GRAPHS:
            graph, spec = onnx.load(translator_graphs / name).graph, manifest.graph(name)
            for values, tensors in ((graph.input, spec.inputs), (graph.output, spec.outputs)):
                found = [
                    (
                        v.name,
                        tuple(d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim),
                    )
                    for v in values
                ]
                assert found == [(tensor.name, tensor.shape) for tensor in tensors]

    def test_they_know_no_path_of_the_machine_that_made_them(self, path):
        for name in GRAPHS:
            data = (path / name).read_bytes()
            for text in (str(Path(__file__).parents[2]), "site-packages", "translator.py"):
                assert text.encode() not in data

    def test_the_source_is_read_by_operators_that_know_its_length(self, recurrent_bundle_path):
        """A loop that is unrolled, or one over the padding, is slow or wrong."""
        nodes = onnx.load(recurrent_bundle_path / "encoder.onnx").graph.node
        readers = [node for node in nodes if node.op_type == "GRU"]
        assert len(readers) == 2  # there and back
        assert all(len(node.input) >= 5 and node.input[4] for node in readers)

    def test_attention_reads_heads_from_rows_without_transposing(self, translator_bundle_path):
        nodes = onnx.load(translator_bundle_path / "decoder.onnx").graph.node
        heads = [node for node in nodes if node.op_type == "Attention"]
        assert len(heads) == 2  # of its one layer: to itself, to the source
        made_by = {output: node.op_type for node in nodes for output in node.output}
        sources = [made_by.get(name) for node in heads for name in node.input[:3]]
        assert "Transpose" not in sources


class TestProof:
    def test_the_report_lies_in_the_bundle(self, path):
        report = json.loads((path / "parity.json").read_text())
        assert report["failures"] == []
        assert 0 <= report["used"] < 1
        assert report["searches"] > 50
        assert report["tokens_equal"] + len(report["near_ties"]) >= report["searches"]
        assert report["tokens_equal"] > 0.9 * report["searches"]
        assert report["provider"] == "CPUExecutionProvider"
        assert {"torch", "onnxruntime", "foretell"} <= set(report["tool_versions"])

    def test_anyone_can_prove_a_bundle_again_from_itself(self, path):
        report = prove_bundle(path)
        report.check()
        assert "searches end with the same tokens" in str(report)

    def test_nothing_is_written_when_the_proof_fails(
        self, translator_bundle_path, tmp_path, monkeypatch
    ):
        """Torch gets another bias after the export: a graph that is a little off."""
        run = read_run(translator_bundle_path.parents[2] / "run").path

        def keep(model, folder):
            for name in GRAPHS:
                (folder / name).write_bytes((translator_bundle_path / name).read_bytes())
            model.output_bias.data[7] += 0.01
            return read_bundle(translator_bundle_path).manifest.graphs

        monkeypatch.setattr(build, "export_translator", keep)
        with pytest.raises(ExportError, match="nothing was written") as caught:
            export_run(run, tmp_path / "models" / "bad" / "1")
        assert "log_probs: the largest difference is 0.0" in str(caught.value)
        assert list((tmp_path / "models" / "bad").iterdir()) == []


class TestBundle:
    def test_the_tokenizer_travels_with_it_and_no_pickle_does(self, path):
        assert sorted(file.name for file in path.iterdir()) == [
            "decoder.onnx",
            "encoder.onnx",
            "manifest.json",
            "parity.json",
            "sample.json",
            TOKENIZER_FILE,
            "weights.npz",
        ]
        trained = path.parents[2] / "run" / TOKENIZER_FILE
        assert (path / TOKENIZER_FILE).read_bytes() == trained.read_bytes()
        with np.load(path / "weights.npz", allow_pickle=False) as weights:
            assert all(weights[name].dtype.kind == "f" for name in weights.files)

    def test_the_manifest_says_what_it_is(self, path):
        manifest = read_bundle(path).manifest
        assert manifest.kind == "translator"
        assert manifest.forecaster is None
        assert (manifest.translator.src_language, manifest.translator.tgt_language) == ("en", "de")
        assert manifest.translator.has_attention

    def test_the_sample_is_answered_as_it_was(self, path):
        bundle = read_bundle(path)
        assert check_translator_sample(bundle, Translator(bundle, device="cpu", threads=1)) < 1e-5

    def test_it_translates_small_numbers(self, path):
        numbers = range(100)
        options = TranslateOptions(beam_size=1)
        found = load(path, device="cpu", threads=1).translate(
            [english_words(number) for number in numbers], options
        )
        right = sum(
            answer.text == german_words(number)
            for answer, number in zip(found, numbers, strict=True)
        )
        assert right > 80
