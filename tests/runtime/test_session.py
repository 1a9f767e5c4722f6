"""A session says what it runs on, and refuses a graph that is not what the manifest says."""

import logging
import threading
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from foretell.data.bundles.bundle import Bundle, TensorSpec, read_bundle
from foretell.data.errors import BundleError, DeviceError, OptionError
from foretell.runtime import devices
from foretell.runtime.cpu import allowed_cores
from foretell.runtime.devices import CPU_PROVIDER, CUDA_PROVIDER
from foretell.runtime.session import Session

GRAPH = "forecaster.onnx"
HAS_GPU = devices.why_no_cuda() is None


@pytest.fixture
def bundle(make_bundle) -> Bundle:
    return read_bundle(make_bundle())


def inputs(context: list[list[float]], horizon: int) -> dict[str, np.ndarray]:
    rows = np.array(context, dtype=np.float64)
    return {"context": rows, "horizon_placeholder": np.full((len(rows), horizon), np.nan)}


class TestRunning:
    def test_outputs_come_by_name(self, bundle: Bundle) -> None:
        outputs = Session(bundle, GRAPH, device="cpu").run(inputs([[1, 2, 3], [4, 4, 4]], 2))
        expected = np.array([2.0, 4.0])[:, None, None] + np.array([-0.4, 0, 0.4])
        np.testing.assert_allclose(outputs["quantiles"], np.broadcast_to(expected, (2, 2, 3)))

    def test_only_the_outputs_that_were_asked_for_come(self, make_translator) -> None:
        session = Session(read_bundle(make_translator()), "encoder.onnx", device="cpu")
        given = {"src": np.array([[5, 6]]), "src_mask": np.array([[True, True]])}
        assert list(session.run(given)) == ["memory_ids", "initial_trace"]
        assert list(session.run(given, ["initial_trace"])) == ["initial_trace"]

    def test_no_more_items_at_once_than_threads_whoever_calls(self, bundle: Bundle) -> None:
        """HC06: a server with many callers must not compute on more cores than it was given."""
        session = Session(bundle, GRAPH, device="cpu", threads=2)
        lock, running, most = threading.Lock(), 0, 0

        def work(_: int) -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.005)
            with lock:
                running -= 1

        callers = [
            threading.Thread(target=session.for_each, args=(work, range(4))) for _ in range(4)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert most == 2

    def test_the_time_of_its_runs_is_told_and_no_other(self, bundle: Bundle) -> None:
        """A job tells the share of the time in which the graph ran."""
        session = Session(bundle, GRAPH, device="cpu", threads=2)
        assert session.busy_s == 0
        before = time.process_time()
        session.for_each(lambda _: session.run(inputs([[1.0, 2.0]] * 50, 24)), range(8))
        assert 0 < session.busy_s <= time.process_time() - before
        ran = session.busy_s
        sum(range(10_000))
        assert session.busy_s == ran

    def test_a_failure_in_a_worker_reaches_the_caller(self, bundle: Bundle) -> None:
        def work(item: int) -> None:
            if item == 2:
                raise ValueError("item 2 is bad")

        with pytest.raises(ValueError, match="item 2 is bad"):
            Session(bundle, GRAPH, device="cpu").for_each(work, range(4))


class TestDevices:
    def test_cpu_never_touches_the_gpu(
        self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def touch() -> None:
            pytest.fail("device cpu looked for CUDA")

        monkeypatch.setattr(devices, "why_no_cuda", touch)
        assert Session(bundle, GRAPH, device="cpu").provider == CPU_PROVIDER

    @pytest.mark.skipif(HAS_GPU, reason="there is a GPU here")
    def test_auto_without_a_gpu_is_the_cpu_and_says_so_quietly(
        self, bundle: Bundle, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """HC04: the provider in use can be read and stands in the log; stdout carries data only."""
        with caplog.at_level(logging.INFO, logger="foretell"):
            session = Session(bundle, GRAPH, device="auto")
        assert session.provider == CPU_PROVIDER
        assert CPU_PROVIDER in caplog.text
        assert capfd.readouterr() == ("", "")

    @pytest.mark.skipif(HAS_GPU, reason="there is a GPU here")
    def test_cuda_without_a_gpu_is_refused_naming_the_provider(
        self, bundle: Bundle, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """HC04: onnxruntime itself would go on on the CPU, and nobody would know."""
        with pytest.raises(DeviceError, match=rf"{CUDA_PROVIDER} can't be had: .*NVIDIA driver"):
            Session(bundle, GRAPH, device="cuda")
        assert capfd.readouterr() == ("", "")

    def test_cuda_with_an_onnxruntime_for_cpu_says_what_to_install(
        self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ort, "get_available_providers", lambda: [CPU_PROVIDER])
        with pytest.raises(DeviceError, match=r"no CUDA in it; install foretell\[cuda\]"):
            Session(bundle, GRAPH, device="cuda")

    @pytest.mark.skipif(HAS_GPU, reason="there is a GPU here")
    def test_a_gpu_whose_libraries_are_missing_is_never_silent(
        self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(devices, "why_no_cuda", lambda: None)
        with pytest.raises(DeviceError, match="libraries can't be loaded"):
            Session(bundle, GRAPH, device="cuda")
        assert Session(bundle, GRAPH, device="auto").provider == CPU_PROVIDER
        assert "on the CPU, because" in caplog.text
        assert CUDA_PROVIDER in caplog.text

    def test_the_gpus_memory_can_be_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A batch that is too large for it fails in onnxruntime, and runs again in halves."""
        monkeypatch.delenv(devices.GPU_MEMORY_VARIABLE, raising=False)
        assert "gpu_mem_limit" not in devices.cuda_options()
        monkeypatch.setenv(devices.GPU_MEMORY_VARIABLE, "4096")
        assert devices.cuda_options()["gpu_mem_limit"] == str(4096 * 1024**2)
        for wrong in ("0", "4.5", "4 GiB", "-1", "\u0664"):
            monkeypatch.setenv(devices.GPU_MEMORY_VARIABLE, wrong)
            with pytest.raises(OptionError, match=r"FORETELL_GPU_MEMORY_MIB is .* whole MiB"):
                devices.cuda_options()

    @pytest.mark.gpu
    @pytest.mark.skipif(not HAS_GPU, reason="there is no GPU here")
    def test_cuda_is_taken_where_it_works(self, bundle: Bundle) -> None:
        for device in ("cuda", "auto"):
            session = Session(bundle, GRAPH, device=device)
            assert session.provider == CUDA_PROVIDER
            np.testing.assert_allclose(
                session.run(inputs([[1, 3]], 1))["quantiles"], [[[1.6, 2.0, 2.4]]]
            )

    def test_wrong_options_are_all_named(self, bundle: Bundle) -> None:
        with pytest.raises(OptionError) as caught:
            Session(bundle, GRAPH, device="gpu", threads=0)
        assert "device is 'gpu'; expected one of auto, cpu, cuda." in str(caught.value)
        assert "threads is 0; expected at least 1" in str(caught.value)

    def test_threads_are_the_allowed_cores_unless_given(self, bundle: Bundle) -> None:
        assert Session(bundle, GRAPH, device="cpu").threads == allowed_cores()
        assert Session(bundle, GRAPH, device="cpu", threads=3).threads == 3


class TestSignature:
    def test_every_difference_from_the_manifest_is_named(self, make_bundle) -> None:
        path = make_bundle(
            inputs=(
                TensorSpec("context", "float32", ("batch", "context_len")),
                TensorSpec("horizon_placeholder", "float64", ("batch", 24)),
            ),
            outputs=(TensorSpec("quantiles", "float64", ("batch", "horizon", 9)),),
        )
        with pytest.raises(BundleError) as caught:
            Session(read_bundle(path), GRAPH, device="cpu")
        message = str(caught.value)
        assert "input context is float64; the manifest says float32." in message
        assert "input horizon_placeholder has the shape ['batch', 'horizon']" in message
        assert "output quantiles has the shape ['batch', 'horizon', 3]" in message
        assert len(caught.value.problems) == 3

    def test_other_names_are_refused(self, make_bundle) -> None:
        path = make_bundle(inputs=(TensorSpec("values", "float64", ("batch", "context_len")),))
        with pytest.raises(BundleError, match=r"its inputs are \['context', .*says \['values'\]"):
            Session(read_bundle(path), GRAPH, device="cpu")

    def test_names_of_dynamic_axes_are_free(self, make_bundle) -> None:
        path = make_bundle(
            inputs=(
                TensorSpec("context", "float64", ("B", "T")),
                TensorSpec("horizon_placeholder", "float64", ("B", "H")),
            )
        )
        assert Session(read_bundle(path), GRAPH, device="cpu").provider == CPU_PROVIDER

    def test_a_graph_that_onnxruntime_cannot_load_is_the_bundles_fault(
        self, make_bundle, capfd: pytest.CaptureFixture[str]
    ) -> None:
        path: Path = make_bundle(graph=b"no graph at all")
        with pytest.raises(BundleError, match=rf"onnxruntime {ort.__version__} can't load {GRAPH}"):
            Session(read_bundle(path), GRAPH, device="cpu")
        assert capfd.readouterr() == ("", "")
