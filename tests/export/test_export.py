"""The export: a graph that is what it says, and no bundle without proof."""

import json
from pathlib import Path

import jaxtyping
import numpy as np
import onnx
import pytest
import torch

from foretell.data.bundles.bundle import read_bundle
from foretell.data.errors import BundleError, OptionError
from foretell.export import build
from foretell.export.build import export_run, prove_bundle
from foretell.export.forecaster import export_forecaster, forecaster_inputs
from foretell.export.forecaster_parity import compare, parity_cases
from foretell.export.onnx_graph import ExportError, Signature, export_graph
from foretell.model.config import ForecasterConfig
from foretell.model.forecaster import Forecaster
from foretell.runtime.selfcheck import check_sample
from foretell.runtime.session import Session

CONFIG = ForecasterConfig(
    patch_length=4, context_length=24, d_model=8, num_layers=1, num_heads=2, d_ff=8
)


@pytest.fixture
def unchecked():
    """Exports trace with symbols for sizes, which the tests' shape checker can't compare."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Forecaster(CONFIG).eval()


@pytest.fixture(scope="module")
def graph(bundle_path):
    return onnx.load(bundle_path / "forecaster.onnx")


class TestGraph:
    def test_it_passes_the_checker_and_uses_standard_operators_alone(self, graph):
        onnx.checker.check_model(graph, full_check=True)
        assert {node.domain for node in graph.graph.node} <= {"", "ai.onnx"}
        assert [(opset.domain, opset.version) for opset in graph.opset_import] == [("", 23)]

    def test_sizes_are_dynamic_and_names_are_the_manifests(self, graph, bundle_path):
        spec = read_bundle(bundle_path).manifest.graph("forecaster.onnx")
        for values, tensors in (
            (graph.graph.input, spec.inputs),
            (graph.graph.output, spec.outputs),
        ):
            found = [
                (v.name, tuple(d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim))
                for v in values
            ]
            assert found == [(tensor.name, tensor.shape) for tensor in tensors]
        assert spec.inputs[0].shape == ("batch", "context_len")
        assert spec.outputs[0].shape == ("batch", "horizon", 7)

    def test_it_is_one_file_that_knows_no_path_of_the_machine_that_made_it(self, bundle_path):
        data = (bundle_path / "forecaster.onnx").read_bytes()
        for path in (str(Path(__file__).parents[2]), "site-packages", "forecaster.py"):
            assert path.encode() not in data

    def test_a_model_in_training_mode_is_exported_as_it_serves(self, tmp_path, unchecked):
        """An export with dropout still on answers something else each time."""
        model = Forecaster(
            ForecasterConfig(**{**CONFIG.to_json(), "dropout": 0.5, "quantile_levels": (0.5,)})
        ).train()
        export_forecaster(model, tmp_path)
        operators = {n.op_type for n in onnx.load(tmp_path / "forecaster.onnx").graph.node}
        assert "Dropout" not in operators
        assert "RandomUniformLike" not in operators

    def test_an_axis_that_torch_fixes_is_an_error(self, tmp_path, unchecked):
        class Fixed(torch.nn.Module):
            def forward(self, x):
                return x.reshape(2, 3) + 1

        signature = Signature({"x": ("batch", 3)}, {"y": ("batch", 3)})
        with pytest.raises(ExportError, match="torch can't export the model"):
            export_graph(Fixed(), {"x": torch.randn(2, 3)}, signature, tmp_path / "x.onnx")


class TestParity:
    def test_the_grid_holds_what_breaks_exports(self):
        cases = list(parity_cases(CONFIG))
        shapes = {(len(case.context), case.context.shape[1], case.horizon) for case in cases}
        assert {batch for batch, _, _ in shapes} == {1, 2, 3, 7}
        assert {1, 3, 4, 7, 24} <= {steps for _, steps, _ in shapes}
        assert {1, 4, 13} <= {horizon for _, _, horizon in shapes}
        names = " ".join(case.name for case in cases)
        for kind in ("leading", "inner", "nothing observed", "constant", "1e-12", "1e12", "1e39"):
            assert kind in names

    def test_the_report_lies_in_the_bundle(self, bundle_path):
        report = json.loads((bundle_path / "parity.json").read_text())
        assert report["failures"] == []
        assert 0 <= report["used"] < 1
        assert report["largest_absolute"] < 1e-4
        assert report["provider"] == "CPUExecutionProvider"
        assert {"torch", "onnxruntime", "foretell"} <= set(report["tool_versions"])

    def test_anyone_can_prove_a_bundle_again_from_itself(self, bundle_path, covariate_bundle_path):
        for path in (bundle_path, covariate_bundle_path):
            prove_bundle(path).check()

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (lambda x: x * (1 + 1e-3), "times what is allowed"),
            (lambda x: x[:, :-1], "inf"),
            (lambda x: np.where(x == x.max(), np.nan, x), "inf"),
        ],
    )
    def test_a_graph_that_computes_something_else_fails(self, model, change, text, unchecked):
        def run(inputs):
            with torch.inference_mode():
                return change(model(**{k: torch.from_numpy(v) for k, v in inputs.items()}).numpy())

        report = compare(model, {"x": run}, provider="none", tool_versions={})
        with pytest.raises(ExportError, match=text):
            report.check()

    def test_a_constant_must_be_met_exactly(self, model):
        def run(inputs):
            with torch.inference_mode():
                answer = model(**{k: torch.from_numpy(v) for k, v in inputs.items()}).numpy()
            return np.where(answer == 7.25, np.nextafter(7.25, 8), answer)

        report = compare(model, {"x": run}, provider="none", tool_versions={})
        assert [failure.split(" (")[0] for failure in report.failures] == ["constant"]


class TestBundle:
    def test_the_sample_is_answered_as_it_was(self, bundle_path):
        bundle = read_bundle(bundle_path)
        assert check_sample(bundle, Session(bundle, "forecaster.onnx", device="cpu")) < 1e-6

    def test_another_answer_to_the_sample_is_refused(self, bundle_path, monkeypatch):
        bundle = read_bundle(bundle_path)
        session = Session(bundle, "forecaster.onnx", device="cpu")
        run = session.run
        monkeypatch.setattr(session, "run", lambda x: {"quantiles": run(x)["quantiles"] * 1.01})
        with pytest.raises(BundleError, match=r"its own sample differs by 0\.01"):
            check_sample(bundle, session)

    def test_nothing_is_written_when_the_proof_fails(
        self, bundle_path, tmp_path, monkeypatch, unchecked
    ):
        run = bundle_path.parents[2] / "run"

        def forward(self, context, horizon_placeholder):
            return true_forward(self, context, horizon_placeholder) * 1.01

        true_forward = Forecaster.forward
        monkeypatch.setattr(
            build, "export_forecaster", _after(build.export_forecaster, monkeypatch, forward)
        )
        with pytest.raises(ExportError, match="nothing was written"):
            export_run(run, tmp_path / "models" / "bad" / "1")
        assert list(tmp_path.rglob("*")) in ([], [tmp_path / "models", tmp_path / "models" / "bad"])

    def test_an_unknown_precision_is_refused(self, bundle_path, tmp_path):
        with pytest.raises(OptionError, match="precision is 'fp4'"):
            export_run(bundle_path.parents[2] / "run", tmp_path / "1", precision="fp4")

    def test_no_pickle_lies_in_it(self, bundle_path):
        assert sorted(file.name for file in bundle_path.iterdir()) == [
            "forecaster.onnx",
            "manifest.json",
            "parity.json",
            "sample.json",
            "weights.npz",
        ]
        with np.load(bundle_path / "weights.npz", allow_pickle=False) as weights:
            assert all(weights[name].dtype.kind in "fi" for name in weights.files)


def _after(export, monkeypatch, forward):
    """Export the true model, then let torch compute something else."""

    def exporting(model, folder):
        spec = export(model, folder)
        monkeypatch.setattr(Forecaster, "forward", forward)
        return spec

    return exporting


def test_covariates_are_completed_where_the_model_has_them():
    config = ForecasterConfig(
        **{**CONFIG.to_json(), "quantile_levels": (0.5,), "num_past_covariates": 2}
    )
    inputs = forecaster_inputs(config, np.zeros((2, 5)), 3)
    assert {name: array.shape for name, array in inputs.items()} == {
        "context": (2, 5),
        "horizon_placeholder": (2, 3),
        "context_covariates": (2, 5, 2),
    }
