"""A bundle's two graphs as a `Decoder`: the encoder once, then the decoder step by step.

What must be remembered is read off the graphs' signatures, so one class serves every model. Each
array of it has the sentences on its first axis; the graph itself follows the beams' parents.

On a GPU all of it stays there, held by onnxruntime: a step brings tokens, scores and places up, and
what the search chooses from down; sentences that leave are left out by a graph of their own.

Axes: B sentences, S pieces of the source, K beams, V vocabulary, n sentences kept.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from foretell.data.bundles.bundle import Bundle
from foretell.data.errors import BundleError
from foretell.runtime.devices import CPU_PROVIDER
from foretell.runtime.search.decoding import StepAnswer, StepRequest
from foretell.runtime.search.stopping import Stop
from foretell.runtime.session import Array, RowTaker, Session, hold, on_host
from foretell.runtime.signature import DecoderSignature, empty_past, renamed

ENCODER_FILE = "encoder.onnx"
DECODER_FILE = "decoder.onnx"

Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class OnnxState:
    """What the decoder remembers of its sentences, by the names of the graph's inputs.

    The arrays are NumPy's, or held on the device; what is empty is always NumPy's.

    Attributes:
        memory: The mask of the source and what the encoder made of it; the same at every step.
        past: What each step hands to the next.
    """

    memory: Arrays
    past: Arrays


class OnnxDecoder:
    """The graphs of a translator. Many threads may use them at once, each with its own states.

    Attributes:
        spec: What the model was trained for.
        vocab_size: Number of token ids, V.
        has_attention: Whether attention weights can be had.
        session: The decoder's graph; its `for_each` shares work out among threads.
        sessions: Both graphs by name, "encoder" and "decoder".
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        device: str = "auto",
        threads: int | None = None,
        holds: bool | None = None,
    ) -> None:
        """Load both graphs.

        Args:
            bundle: A bundle that `read_bundle` has verified.
            device: "cpu"; "cuda"; or "auto", which is CUDA where it works and else the CPU.
            threads: Runs that `session.for_each` does at once; None takes the allowed cores.
            holds: States stay in onnxruntime's memory. None has them so on a GPU; on a CPU that is
                the same, a little slower.

        Raises:
            BundleError: The bundle holds no translator, or its graphs don't fit each other: every
                array that would be lost between two steps is named.
            DeviceError: CUDA was asked for and can't be had.
            OptionError: `device` or `threads` is none that there is.
        """
        spec = bundle.manifest.translator
        if spec is None:
            raise BundleError(
                f"bundle {bundle.path} holds a {bundle.manifest.kind}; expected a translator."
            )
        self._signature = DecoderSignature.read(
            bundle.manifest.graph(ENCODER_FILE),
            bundle.manifest.graph(DECODER_FILE),
            vocab_size=spec.vocab_size,
            has_attention=spec.has_attention,
        )
        self.spec = spec
        self.vocab_size = spec.vocab_size
        self.has_attention = spec.has_attention
        self._encoder, self.session = _open_both(bundle, device, threads)
        self.sessions = {"encoder": self._encoder, "decoder": self.session}
        self._stop: Stop | None = None
        self._presents = {
            tensor.name: renamed(tensor.name, "present_") for tensor in self._signature.past
        }
        holds = self.session.provider != CPU_PROVIDER if holds is None else holds
        self._rows = self._row_taker(bundle) if holds else None

    def _row_taker(self, bundle: Bundle) -> RowTaker:
        names = {"src_mask", *self._signature.memory, *self._presents}
        inputs = bundle.manifest.graph(DECODER_FILE).inputs
        state = [tensor for tensor in inputs if tensor.name in names]
        return RowTaker(state, self.session.provider)

    def until(self, stop: Stop) -> "OnnxDecoder":
        """Make a view of the same graphs, whose runs end when `stop` is set."""
        view = copy.copy(self)
        view._stop = stop
        return view

    def start(self, src: Int64[np.ndarray, "B S"], src_mask: Bool[np.ndarray, "B S"]) -> OnnxState:
        """Read the sources; see `Decoder`."""
        given = self._encode(src, src_mask)
        memory = {name: given[name] for name in self._signature.memory}
        past = {
            tensor.name: given[self._signature.initial[tensor.name]]
            if tensor.name in self._signature.initial
            else empty_past(tensor, len(src))
            for tensor in self._signature.past
        }
        return OnnxState(self._held({"src_mask": src_mask, **memory}), self._held(past))

    def _encode(self, src: Int64[np.ndarray, "B S"], src_mask: Bool[np.ndarray, "B S"]) -> Arrays:
        names = [*self._signature.memory, *self._signature.initial.values()]
        held = [] if self._rows is None else names
        if len(src) > 1 or self.spec.arch != "recurrent":
            inputs = {"src": src, "src_mask": src_mask}
            return self._encoder.run(inputs, names, held=held, stop=self._stop)
        # A recurrent layer multiplies a single row by another kernel, which rounds otherwise.
        two = {"src": src.repeat(2, axis=0), "src_mask": src_mask.repeat(2, axis=0)}
        outputs = self._encoder.run(two, names, stop=self._stop)
        return {name: array[:1] for name, array in outputs.items()}

    def step(self, state: OnnxState, request: StepRequest) -> StepAnswer:
        """Go one token on; see `Decoder`."""
        inputs = {
            "tokens": request.tokens,
            "scores": request.scores,
            "parents": request.parents,
            "positions": request.positions,
            "num_candidates": np.array([request.num_candidates]),
            **state.memory,
            **state.past,
        }
        presents = list(self._presents.values())
        names = [*presents]
        if request.num_candidates:
            names += ["candidates", "candidate_log_probs"]
        if request.want_log_probs:
            names.append("log_probs")
        if request.want_attention and self.has_attention:
            names.append("attention")
        held = [] if self._rows is None else presents
        outputs = self.session.run(inputs, names, held=held, stop=self._stop)
        past = {name: outputs.pop(present) for name, present in self._presents.items()}
        if "candidates" in outputs:  # onnxruntime's is a `long long`, which is another type
            outputs["candidates"] = outputs["candidates"].view(np.int64)
        return StepAnswer(state=OnnxState(state.memory, past), **outputs)

    def keep(self, state: OnnxState, rows: Int64[np.ndarray, " n"]) -> OnnxState:
        """Take these sentences of the state; see `Decoder`."""
        arrays = {**state.memory, **state.past}
        if self._rows is None or any(isinstance(x, np.ndarray) for x in arrays.values()):
            kept = self._held({name: on_host(array)[rows] for name, array in arrays.items()})
        else:
            kept = self._rows.take(arrays, rows, stop=self._stop)
        parts = ({name: kept[name] for name in part} for part in (state.memory, state.past))
        return OnnxState(*parts)

    def _held(self, arrays: Arrays) -> Arrays:
        """Bring arrays to the device, if that is where states are; none that is empty."""
        if self._rows is None:
            return arrays
        provider = self.session.provider
        return {
            name: hold(x, provider) if isinstance(x, np.ndarray) and x.size else x
            for name, x in arrays.items()
        }


def _open_both(bundle: Bundle, device: str, threads: int | None) -> tuple[Session, Session]:
    """Open both graphs in one place: what one holds on a device the other can't take elsewhere."""
    encoder, decoder = (
        Session(bundle, graph, device=device, threads=threads)
        for graph in (ENCODER_FILE, DECODER_FILE)
    )
    if encoder.provider != decoder.provider:  # "auto", and the GPU had room for one alone
        return _open_both(bundle, "cpu", threads)
    return encoder, decoder
