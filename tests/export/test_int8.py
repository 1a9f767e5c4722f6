"""int8: rows measured one by one, exact sums, and no bundle that loses more than it may."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from foretell.data.bundles.bundle import Manifest, read_bundle, write_bundle
from foretell.data.errors import BundleError, DeviceError, OptionError
from foretell.data.text.number_words import english_words, german_words
from foretell.data.text.translation import TranslateOptions
from foretell.export import build
from foretell.export.build import export_run, prove_bundle
from foretell.export.gate import LIMITS, Gate, Measured
from foretell.export.int8 import quantise_graph
from foretell.export.onnx_graph import ExportError
from foretell.jobs.evaluation.held_out import translator_values
from foretell.runtime import devices, load, load_translator
from foretell.runtime.selfcheck import check_sample, check_translator_sample
from foretell.runtime.session import Session
from foretell.runtime.translator import Translator


def graph(nodes: str, **weights: np.ndarray) -> onnx.ModelProto:
    """Write a graph from x [rows, 24] to y, whose weights are constants."""
    head = '<ir_version: 10, opset_import: ["": 23]> g (float[rows, 24] x) => (float[rows, n] y)'
    model = onnx.parser.parse_model(f"{head} {{{nodes}}}")
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return model


def quantised(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "graph.onnx"
    onnx.save(model, path)
    quantise_graph(path)
    return path


def run(path: Path, x: np.ndarray, *, optimised: bool = True) -> np.ndarray:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def product(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What the module's own description says, in double precision."""
    rows = np.maximum(np.abs(x).max(axis=1, keepdims=True) * np.float32(1 / 127), 1e-30)
    columns = np.abs(weights).max(axis=0, keepdims=True) / np.float32(63)
    return (np.rint(x / rows) @ np.rint(weights / columns)) * rows * columns


WEIGHTS = np.random.default_rng(0).normal(size=(24, 32)).astype(np.float32)
SCALES = st.lists(st.sampled_from([0.0, 1e-20, 1e-3, 1.0, 1e6]), min_size=2, max_size=9)


class TestGraphs:
    @given(scales=SCALES, seed=st.integers(0, 999))
    def test_rows_are_measured_one_by_one(self, scales, seed, tmp_path_factory) -> None:
        """Of a scale for all, a row of small numbers would be nothing beside one of large ones."""
        path = self.path(tmp_path_factory)
        rng = np.random.default_rng(seed)
        x = (rng.normal(size=(len(scales), 24)) * np.array(scales)[:, None]).astype(np.float32)
        found = run(path, x)
        expected = product(x, WEIGHTS)
        size = np.abs(x).max(axis=1, keepdims=True) + 1e-30
        np.testing.assert_allclose(found / size, expected / size, atol=1e-3)
        alone = np.concatenate([run(path, x[i : i + 1]) for i in range(len(x))])
        np.testing.assert_array_equal(found, alone)
        np.testing.assert_array_equal(found, run(path, x, optimised=False))

    def path(self, tmp_path_factory) -> Path:
        if not hasattr(type(self), "made"):
            model = graph("y = MatMul(x, w)", w=WEIGHTS)
            type(self).made = quantised(model, tmp_path_factory.mktemp("int8"))
        return type(self).made

    def test_parts_of_a_matrix_biases_and_turned_weights_are_products_too(self, tmp_path) -> None:
        """Queries, keys and values are slices of one matrix; a Linear is a Gemm with a bias."""
        both = np.concatenate([WEIGHTS.T, 3 * WEIGHTS.T])  # [64 24]
        bias = np.linspace(-1, 1, 32).astype(np.float32)
        nodes = """
            part = Slice(both, start, end, axis)
            turned = Transpose <perm = [1, 0]> (part)
            a = MatMul(x, turned)
            b = Gemm <transB = 1> (x, other, bias)
            y = Add(a, b)
        """
        model = graph(
            nodes,
            both=both,
            other=WEIGHTS.T.copy(),
            bias=bias,
            start=np.array([32]),
            end=np.array([64]),
            axis=np.array([0]),
        )
        path = quantised(model, tmp_path)
        operators = [node.op_type for node in onnx.load(path).graph.node]
        assert operators.count("MatMulInteger") == 2
        assert operators.count("Round") == 1  # the row is measured once for both
        assert {"Slice", "Transpose", "Gemm", "MatMul"}.isdisjoint(operators)
        x = np.random.default_rng(1).normal(size=(5, 24)).astype(np.float32)
        expected = product(x, 3 * WEIGHTS) + product(x, WEIGHTS) + bias
        np.testing.assert_allclose(run(path, x), expected, atol=1e-4)

    def test_embeddings_keep_a_scale_a_row(self, tmp_path) -> None:
        table = WEIGHTS.T * np.logspace(-6, 6, 32, dtype=np.float32)[:, None]  # [32 24]
        nodes = """
            ids = Cast <to = 7> (x)
            one = Gather(table, ids)
            y = Squeeze(one, axes)
        """
        path = quantised(graph(nodes, table=table, axes=np.array([0])), tmp_path)
        found = run(path, np.arange(24, dtype=np.float32)[None])
        size = np.abs(table[:24]).max(axis=1, keepdims=True)
        np.testing.assert_allclose(found / size, table[:24] / size, atol=0.5 / 127 + 1e-6)

    def test_two_products_never_clip_on_any_processor(
        self, translator_bundle_path, tmp_path
    ) -> None:
        """Without VNNI two products are added in 16 bits, which 8-bit weights overflow."""
        path = shutil.copy(translator_bundle_path / "decoder.onnx", tmp_path)
        assert quantise_graph(Path(path)) > 5
        names = {
            node.input[1] for node in onnx.load(path).graph.node if node.op_type == "MatMulInteger"
        }
        for one in onnx.load(path).graph.initializer:
            if one.name in names:
                integers = numpy_helper.to_array(one).astype(int)
                assert np.abs(integers).max() == 63
                assert 255 * 2 * np.abs(integers).max() < 2**15

    def test_graphs_of_every_kind_stay_sound_and_keep_their_signature(
        self, translator_graphs, tmp_path
    ) -> None:
        for name in ("encoder.onnx", "decoder.onnx"):
            before = onnx.load(translator_graphs / name)
            path = Path(shutil.copy(translator_graphs / name, tmp_path))
            count, size = quantise_graph(path), path.stat().st_size
            after = onnx.load(path)
            assert {node.domain for node in after.graph.node} <= {"", "ai.onnx"}
            assert after.graph.input == before.graph.input
            assert after.graph.output == before.graph.output
            assert size < (translator_graphs / name).stat().st_size or not count


def int8_bundle(path: Path, target: Path) -> Path:
    """Write a bundle again with int8 graphs, whatever that loses."""
    whole = read_bundle(path)

    def fill(folder: Path) -> Manifest:
        for name in set(whole.manifest.files) - {"weights.npz"}:
            shutil.copyfile(path / name, folder / name)
        for one in whole.manifest.graphs:
            assert quantise_graph(folder / one.file)
        return replace(whole.manifest, precision="int8", files={})

    return write_bundle(target, fill).path


class TestNeighbours:
    """A scale of a whole array would make an answer depend on what is computed beside it."""

    def test_a_forecast_is_the_same_alone(self, bundle_path, tmp_path) -> None:
        bundle = read_bundle(int8_bundle(bundle_path, tmp_path / "int8"))
        session = Session(bundle, "forecaster.onnx", device="cpu", threads=1)
        rng = np.random.default_rng(0)
        context = rng.normal(size=(12, 40)).cumsum(axis=1) * 10.0 ** np.arange(-6, 6)[:, None]
        placeholder = np.full((12, 8), np.nan)

        def ask(rows: slice) -> np.ndarray:
            given = {"context": context[rows], "horizon_placeholder": placeholder[rows]}
            return session.run(given)["quantiles"]

        together = ask(slice(None))
        for size in (1, 4):
            parts = [ask(slice(i, i + size)) for i in range(0, 12, size)]
            np.testing.assert_array_equal(np.concatenate(parts), together)

    @pytest.mark.parametrize("kind", ["translator_bundle_path", "recurrent_bundle_path"])
    def test_a_translation_is_the_same_alone(self, kind, request, tmp_path) -> None:
        path = int8_bundle(request.getfixturevalue(kind), tmp_path / "int8")
        model = load_translator(path, device="cpu")
        texts = [english_words(number) for number in (3, 17, 42, 99, 730)]
        for beam_size in (1, 4):
            options = TranslateOptions(beam_size=beam_size)
            together = model.translate(texts, options)
            alone = [model.translate([text], options)[0] for text in texts]
            for one, other in zip(alone, together, strict=True):
                assert one.text == other.text
                assert one.hypotheses[0].token_log_probs == other.hypotheses[0].token_log_probs


def test_int8_is_for_the_cpu(bundle_path, tmp_path, monkeypatch) -> None:
    """HC04: CUDA would leave these products to the CPU, and be named as what serves."""
    monkeypatch.setattr(devices, "why_no_cuda", lambda: None)
    path = int8_bundle(bundle_path, tmp_path / "int8")
    with pytest.raises(DeviceError, match=r"is int8, which is for the CPU; on 'cuda' serve"):
        load(path, device="cuda")
    assert load(path, device="auto").provider == devices.CPU_PROVIDER


def stub(before: dict[str, float], after: dict[str, float], count: int = 200) -> Gate:
    """A gate that measures what it is told to."""
    answers = iter((before, after))
    return Gate(lambda bundle: Measured(num_held_out=count, values=next(answers)))


GOOD = {"bleu": 30.0, "copied_share": 0.02}


def test_a_translators_measures_are_what_they_are_called(translator_bundle_path) -> None:
    bundle = read_bundle(translator_bundle_path)
    model = load_translator(translator_bundle_path, device="cpu")
    src = [english_words(number) for number in range(990, 1000)]
    own = [str(one) for one in model.translate(src)]
    signs = "- - - - -"  # handed on as it is
    count, values = translator_values(bundle, [*src, "", signs], [*own, "", signs])
    assert count == 11  # a blank line is nobody's copy
    assert values == {"bleu": pytest.approx(100.0), "copied_share": 1 / 11}


class TestGate:
    """HC05: after quantising, a translator may give its input back; nobody would be told."""

    @pytest.fixture
    def run_of(self, translator_bundle_path, monkeypatch) -> Path:
        """A run whose graphs are those that were exported already."""

        def keep(model, folder):
            for name in ("encoder.onnx", "decoder.onnx"):
                shutil.copyfile(translator_bundle_path / name, folder / name)
            return read_bundle(translator_bundle_path).manifest.graphs

        monkeypatch.setattr(build, "export_translator", keep)
        return translator_bundle_path.parents[2] / "run"

    @pytest.mark.parametrize(
        ("name", "before", "good", "bad"),
        [
            ("bleu", 30.0, 29.0, 28.99),
            ("copied_share", 0.02, 0.03, 0.0301),
            ("mase", 1.0, 1.05, 1.0501),
            ("constant_error", 0.0, 0.01, 0.0101),
        ],
    )
    def test_the_limits_are_those_that_were_agreed(self, name, before, good, bad) -> None:
        assert LIMITS[name].holds(before, good)
        assert not LIMITS[name].holds(before, bad)
        assert not LIMITS[name].holds(before, float("nan"))

    def test_what_loses_little_is_written_with_what_it_lost(self, run_of, tmp_path) -> None:
        numbers = [*range(100)] * 2
        src = [english_words(number) for number in numbers]
        tgt = [german_words(number) for number in numbers]

        def measure(bundle) -> Measured:
            count, values = translator_values(bundle, src, tgt)
            return Measured(num_held_out=count, values=values)

        gate, target = Gate(measure), tmp_path / "models" / "small" / "1"
        export_run(run_of, target, precision="int8", gate=gate)
        bundle = read_bundle(target)
        assert bundle.manifest.precision == "int8"
        told = bundle.manifest.training["int8"]
        assert told == gate.to_json()
        assert told["num_held_out"] == 200
        assert set(told["float32"]) == set(told["int8"]) == {"bleu", "copied_share"}
        assert told["graph_bytes"]["int8"] < 0.6 * told["graph_bytes"]["float32"]
        assert "weights.npz" not in bundle.manifest.files
        assert check_translator_sample(bundle, Translator(bundle, device="cpu")) < 1e-6
        found = load_translator(target, device="cpu").translate(src[:100])
        assert sum(str(one) == text for one, text in zip(found, tgt, strict=False)) >= 90
        with pytest.raises(BundleError, match=r"is int8: its graphs were proven in fp32"):
            prove_bundle(target)

    def test_what_loses_more_is_not_written_and_everything_is_told(self, run_of, tmp_path) -> None:
        gate = stub(GOOD, {"bleu": 28.5, "copied_share": 0.5})
        with pytest.raises(ExportError) as caught:
            export_run(run_of, tmp_path / "m" / "1", precision="int8", gate=gate)
        bleu, copied, advice = caught.value.problems
        assert bleu == "BLEU: float32 30.00, int8 28.50; at most 1.0 lower is allowed: FAILED."
        assert copied == (
            "share of translations equal to their source: float32 0.0200, int8 0.5000; at most "
            "0.01 higher is allowed: FAILED."
        )
        assert "nothing was written; serve fp32" in advice
        assert list((tmp_path / "m").iterdir()) == []

    def test_too_little_data_says_nothing(self, translator_bundle_path) -> None:
        gate = stub(GOOD, GOOD, count=199)
        with pytest.raises(OptionError, match=r"has 199 lines or series .* at least 200"):
            gate.take_before(read_bundle(translator_bundle_path))

    def test_int8_needs_a_gate_and_fp32_has_none(self, run_of, tmp_path) -> None:
        with pytest.raises(OptionError, match="measured on held-out data"):
            export_run(run_of, tmp_path / "1", precision="int8")
        with pytest.raises(OptionError, match="measured on held-out data"):
            export_run(run_of, tmp_path / "1", gate=stub(GOOD, GOOD))


def test_a_bundle_of_a_precision_that_nobody_knows_is_refused(bundle_path, tmp_path) -> None:
    whole = read_bundle(bundle_path)

    def fill(folder: Path) -> Manifest:
        for name in whole.manifest.files:
            shutil.copyfile(bundle_path / name, folder / name)
        return replace(whole.manifest, precision="int3", files={})

    bundle = write_bundle(tmp_path / "int3", fill)
    with pytest.raises(BundleError, match=r"'int3'; this foretell knows fp32 and int8"):
        check_sample(bundle, Session(bundle, "forecaster.onnx", device="cpu"))
