"""One graph of a model by itself over the Open Inference Protocol: arrays in, arrays out.

A graph trusts its inputs: an index beyond its table stops it, and a long axis squared fills the
memory. So both are looked at before it runs.

Axes: B batch, K beams, V vocabulary.
"""

import math
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np

from foretell.data.bundles.bundle import GraphSpec, Manifest
from foretell.data.text.translation import LARGEST_BEAM
from foretell.runtime.batching import MAX_BATCH_TOKEN_PAIRS, MAX_SERIES_TOKENS
from foretell.server.calls.answer_sizes import check_answer_size
from foretell.server.calls.answering import Answering
from foretell.server.calls.call import Call
from foretell.server.errors import RequestError
from foretell.server.inference.parameters import Value
from foretell.server.inference.signature import Limit, Signature, Tensor
from foretell.server.models.served import Model, Served
from foretell.server.options import ServerOptions

Arrays = Mapping[str, np.ndarray]

_MOST_TOKENS = 16_384  # of all rows together
_SUFFIX = ".onnx"


def graphs_of(manifest: Manifest) -> dict[str, GraphSpec]:
    """A model's graphs by the name that clients give them: that of the file, without its ending."""
    return {spec.file.removesuffix(_SUFFIX): spec for spec in manifest.graphs}


# By model and graph; a call has no time to make it anew.
_known: WeakKeyDictionary[Served, dict[str, Signature]] = WeakKeyDictionary()


def _signature(model: Model, graph: str, spec: GraphSpec) -> Signature:
    name = f"{model.name}:{graph}"
    of_model = _known.setdefault(model.served, {})
    if name not in of_model:
        translator = model.served.manifest.translator
        limits = {}
        if translator is not None:
            limits = {
                "src_len": Limit(translator.max_source_length, "in this model"),
                "beams": Limit(LARGEST_BEAM, "on this server"),
                "past_beams": Limit(LARGEST_BEAM, "on this server"),
            }
        of_model[name] = Signature(
            model=name,
            inputs=tuple(map(Tensor.of, spec.inputs)),
            outputs=tuple(map(Tensor.of, spec.outputs)),
            limits=limits,
            may_be_empty=frozenset({"past_len"}),  # nothing is past at the first step
            facts={"opset": str(spec.opset), "file": spec.file},
        )
    return of_model[name]


class GraphInference:
    """A graph for the Open Inference Protocol.

    Attributes:
        model: Which it is of.
        signature: What it takes and gives.
    """

    def __init__(self, model: Model, graph: str, options: ServerOptions) -> None:
        self.model = model
        self._graph = graph
        self._options = options
        manifest = model.served.manifest
        spec = graphs_of(manifest)[graph]
        self._forecaster, self._translator = manifest.forecaster, manifest.translator
        self._outputs = spec.outputs
        self.signature = _signature(model, graph, spec)

    def read(self, arrays: Mapping[str, np.ndarray], _own: Mapping[str, Value]) -> Arrays:
        """Check what is asked.

        Args:
            arrays: The inputs.

        Raises:
            RequestError: A value can't be, or the arrays are too large together.
            MessageSizeError: No answer could hold the outputs.
        """
        sizes = {
            axis: size
            for tensor in self.signature.inputs
            for axis, size in zip(tensor.axes, arrays[tensor.name].shape, strict=True)
            if isinstance(axis, str)
        }
        problems = [*self._value_problems(arrays, sizes), *self._work_problems(sizes)]
        if problems:
            raise RequestError(problems)
        self._check_outputs(arrays, sizes)
        return arrays

    async def ask(
        self, answering: Answering, task: Arrays, outputs: tuple[str, ...], call: Call
    ) -> dict[str, np.ndarray]:
        """Run the graph once."""
        return await answering.run_graph(self.model, self._graph, task, outputs, call)

    def answer_bytes(self, answer: dict[str, np.ndarray]) -> int:
        """What the outputs take."""
        return sum(array.nbytes for array in answer.values())

    def write(
        self, _task: Arrays, answer: dict[str, np.ndarray], *, asks_errors: bool
    ) -> dict[str, np.ndarray]:
        """The outputs are the answer."""
        return answer

    def _value_problems(
        self, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]
    ) -> list[str]:
        if self._translator is None:
            return []
        vocab_size = self._translator.vocab_size
        most = {
            "src": vocab_size - 1,
            "tokens": vocab_size - 1,
            "parents": sizes.get("past_beams", sizes.get("beams", 1)) - 1,
            "positions": self._translator.max_target_length,
            "num_candidates": sizes.get("beams", 1) * vocab_size,
        }
        problems = []
        for name, highest in most.items():
            least = 1 if name == "num_candidates" else 0
            array = arrays.get(name)
            if array is not None and not least <= array.min() <= array.max() <= highest:
                problems.append(
                    f"input {name!r} holds {array.min()} to {array.max()}; its values must be "
                    f"{least} to {highest:,}."
                )
        return problems

    def _work_problems(self, sizes: Mapping[str, int]) -> list[str]:
        rows = sizes.get("batch", 1)
        if self._forecaster is not None:
            patch = self._forecaster.patch_length
            tokens = -(-sizes["context_len"] // patch) - (-sizes["horizon"] // patch)
            what = f"context and horizon are {tokens:,} patches"
            longest = MAX_SERIES_TOKENS
        else:
            tokens = sizes.get("src_len", 1)
            what, longest = f"sources have {tokens:,} pieces", tokens
        if tokens > longest:
            return [f"{what}; at most {longest:,} can be run. Send a shorter context or horizon."]
        most = max(1, min(_MOST_TOKENS // tokens, MAX_BATCH_TOKEN_PAIRS // tokens**2))
        if rows > most:
            return [f"{what}, and of such at most {most:,} rows can be run at once, not {rows:,}."]
        return []

    def _check_outputs(self, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        """Reckon what the graph gives, all of it, asked for or not: it is made in any case."""
        known = dict(sizes)
        if "num_candidates" in arrays:
            known["num_candidates"] = int(arrays["num_candidates"].max())
        known["present_len"] = sizes.get("past_len", 0) + sizes.get("beams", 0)
        size_bytes = sum(
            np.dtype(output.dtype).itemsize
            * math.prod(known[axis] if isinstance(axis, str) else axis for axis in output.shape)
            for output in self._outputs
        )
        check_answer_size(size_bytes, self._options, "fewer rows", has="may have")
