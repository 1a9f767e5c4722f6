"""What a bundle says of itself: the model, its graphs, and every file with its size and SHA-256.

As text the manifest carries a digest of that text, so that a byte flipped anywhere in it is found.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from foretell.data.bundles.records import read_record, to_plain
from foretell.data.calendars.calendar import Frequency
from foretell.data.errors import BundleError, FrequencyError

FORMAT_VERSION = 2
MANIFEST_FILE = "manifest.json"
ANY_FREQUENCY = "any"
_LARGEST_LENGTH = 2**31 - 1  # what clients can be told


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output of a graph.

    Attributes:
        name: As in the graph.
        dtype: NumPy's name, such as "float64".
        shape: An axis each: its name where it is dynamic, its size where it is fixed.
    """

    name: str
    dtype: str
    shape: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class GraphSpec:
    """One ONNX graph of the bundle.

    Attributes:
        file: Its file name.
        opset: Version of the default operator set.
        inputs: In the graph's order.
        outputs: In the graph's order.
    """

    file: str
    opset: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecasterSpec:
    """What a forecaster was trained for.

    Attributes:
        context_length: Most past steps it looks at; longer series are cut to their last ones.
        patch_length: Steps of one patch.
        horizon: Steps ahead it was trained for; more can be asked for.
        frequency: A pandas alias, held in its present-day spelling ("H" becomes "h"), or "any".
        season_length: Steps of the main season; 1 where there is none.
        quantile_levels: Rising, inside (0, 1), 0.5 among them.
        future_covariates: Columns known for the past and the horizon, in the graph's order.
        past_covariates: Columns known for the past only, in the graph's order.
        static: Columns constant within a series, in the graph's order.
    """

    context_length: int
    patch_length: int
    horizon: int
    frequency: str
    season_length: int
    quantile_levels: tuple[float, ...]
    future_covariates: tuple[str, ...] = ()
    past_covariates: tuple[str, ...] = ()
    static: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)}; expected 1 to {_LARGEST_LENGTH:,}."
            for name in ("context_length", "patch_length", "horizon", "season_length")
            if not 1 <= getattr(self, name) <= _LARGEST_LENGTH
        ]
        levels = self.quantile_levels
        if list(levels) != sorted(set(levels)) or 0.5 not in levels:
            problems.append(f"quantile_levels are {list(levels)}; expected rising ones with 0.5.")
        if not all(0 < level < 1 for level in levels):
            problems.append(f"quantile_levels are {list(levels)}; expected all inside (0, 1).")
        names = [*self.future_covariates, *self.past_covariates, *self.static]
        problems += [
            f"column {name!r} has more than one role."
            for name in set(names)
            if names.count(name) > 1
        ]
        try:
            object.__setattr__(self, "frequency", _present_day(self.frequency))
        except FrequencyError as error:
            problems += error.problems
        if problems:
            raise BundleError(problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslatorSpec:
    """What a translator was trained for. Lengths are pieces, the end token counted.

    Attributes:
        arch: The family of its network.
        vocab_size: V, the tokenizer's; source and target share it.
        max_source_length: Longest source it reads.
        max_target_length: Longest translation it writes.
        src_language: A name to show, such as "en"; empty where none was given.
        tgt_language: Likewise.
        has_attention: The graph can tell the attention of each target token.
    """

    arch: Literal["recurrent", "transformer"]
    vocab_size: int
    max_source_length: int
    max_target_length: int
    src_language: str = ""
    tgt_language: str = ""
    has_attention: bool

    def __post_init__(self) -> None:
        least = {
            "vocab_size": 5,  # the four special ids and one piece
            "max_source_length": 2,  # one piece and the end
            "max_target_length": 2,
        }
        problems = [
            f"{name} is {getattr(self, name)}; expected {few} to {_LARGEST_LENGTH:,}."
            for name, few in least.items()
            if not few <= getattr(self, name) <= _LARGEST_LENGTH
        ]
        problems += [
            f"{name} is {getattr(self, name)!r}; expected a name of printable characters."
            for name in ("src_language", "tgt_language")
            if not getattr(self, name).isprintable()
        ]
        if problems:
            raise BundleError(problems)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """How a file was when the bundle was written.

    Attributes:
        sha256: Hexadecimal digest of its bytes.
        size_bytes: Its size.
    """

    sha256: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What a bundle is and holds.

    Attributes:
        format_version: Version of this format; this code reads exactly one.
        kind: What the model does.
        precision: Precision of the weights, such as "fp32".
        config: The model's own configuration, JSON values.
        forecaster: What a forecaster was trained for; None for other kinds.
        translator: What a translator was trained for; None for other kinds.
        graphs: Signatures of the ONNX graphs.
        training: Fingerprint of the training data, metrics, steps; JSON values.
        tool_versions: Versions of the libraries that made the bundle.
        files: Every file of the bundle but the manifest, by path relative to the folder;
            `write_bundle` fills it.
    """

    format_version: int = FORMAT_VERSION
    kind: Literal["forecaster", "translator"]
    precision: str
    config: dict[str, Any]
    forecaster: ForecasterSpec | None = None
    translator: TranslatorSpec | None = None
    graphs: tuple[GraphSpec, ...]
    training: dict[str, Any]
    tool_versions: dict[str, str]
    files: dict[str, FileEntry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = [
            f"kind is {self.kind!r}, but {name} is {spec}."
            for name, spec in (("forecaster", self.forecaster), ("translator", self.translator))
            if (self.kind == name) != (spec is not None)
        ]
        problems += [
            f"{name!r} is no path inside the bundle." for name in self.files if _leaves(name)
        ]
        if self.files:
            problems += [
                f"graph {graph.file!r} is not among the files {sorted(self.files)}."
                for graph in self.graphs
                if graph.file not in self.files
            ]
        if problems:
            raise BundleError(problems)

    def graph(self, file: str) -> GraphSpec:
        """Look up a graph by its file name.

        Raises:
            BundleError: There is none of that name.
        """
        for graph in self.graphs:
            if graph.file == file:
                return graph
        names = [graph.file for graph in self.graphs]
        raise BundleError(f"the bundle has no graph {file!r}; it has {names}.")

    def to_json(self) -> str:
        """Write as JSON, with a digest of that very text in it."""
        try:
            plain = {**to_plain(self), "digest": ""}
            text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
            digest = _digest(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise BundleError(f"the manifest holds what is no JSON value: {error}.") from error
        head, _, tail = text.rpartition(_digest_line(""))
        return head + _digest_line(digest) + tail

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Read what `to_json` wrote; frequency names of older pandas are read as today's.

        Raises:
            BundleError: The text is incomplete, was changed since, is of another format version,
                or lacks keys, has unknown ones or values of the wrong type; all are listed.
        """
        try:
            manifest = cls._read(text)
            manifest.to_json()  # whoever could read it must be able to tell it
        except RecursionError as error:
            raise BundleError(f"{MANIFEST_FILE} is damaged: it is nested too deeply.") from error
        return manifest

    @classmethod
    def _read(cls, text: str) -> "Manifest":
        try:
            value = json.loads(text)
        except ValueError as error:
            raise BundleError(
                f"{MANIFEST_FILE} is incomplete or damaged: it is no JSON ({error})."
            ) from error
        if not isinstance(value, dict):
            raise BundleError(f"{MANIFEST_FILE} holds {type(value).__name__}, not an object.")
        version = value.get("format_version")
        if version != FORMAT_VERSION:
            raise BundleError(
                f"the bundle has format version {version!r}; this foretell reads {FORMAT_VERSION}. "
                "Install the foretell that wrote it, or export the model again."
            )
        digest = value.pop("digest", None)
        if not isinstance(digest, str) or digest != _digest(
            text.replace(_digest_line(digest), _digest_line(""))
        ):
            raise BundleError(
                f"{MANIFEST_FILE} is damaged: its digest is not the one of its text. "
                "Copy or export the bundle again; it is not meant to be edited."
            )
        problems: list[str] = []
        manifest = read_record(cls, value, "manifest", problems)
        if manifest is None or problems:
            raise BundleError(problems)
        return manifest


def _present_day(frequency: str) -> str:
    return frequency if frequency == ANY_FREQUENCY else Frequency.parse(frequency).alias


def _leaves(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name


def _digest_line(digest: str) -> str:
    return f'"digest": "{digest}"'


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
