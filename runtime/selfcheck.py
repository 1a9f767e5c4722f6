"""A bundle's own sample: a request and its answer, run again where the bundle is to serve."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from foretell.data.bundles.bundle import Bundle
from foretell.data.errors import BundleError
from foretell.data.text.translation import TranslateOptions, Translation
from foretell.runtime.session import Session
from foretell.runtime.translator import Translator

SAMPLE_FILE = "sample.json"
# Kernels differ between processors; a wrong graph differs by far more. In int8 a last bit may round
# an activation to the next of its 255 steps.
TOLERANCES = {"fp32": 1e-3, "int8": 0.05}

# Of how many hypotheses a translator's sample is searched: greedily, and with a beam.
_BEAM_SIZES = (1, 4)


def check_sample(bundle: Bundle, session: Session) -> float:
    """Run a forecaster's sample, which also warms the session up.

    Args:
        bundle: A verified bundle.
        session: Its graph.

    Returns:
        The largest difference to the stored answer, relative to the largest stored value.

    Raises:
        BundleError: There is no sample, or none that can be run, or the answer differs.
    """

    def difference(sample: dict[str, Any]) -> float:
        expected = _numbers(sample["quantiles"])
        found = session.run(_inputs(sample))["quantiles"].ravel()
        if found.shape != expected.shape:
            raise ValueError(f"it has {expected.size} quantiles, the answer {found.size}")
        with np.errstate(all="ignore"):  # what is no number after this is told as a difference
            return float(np.abs(found - expected).max() / np.abs(expected).max())

    return _check(bundle, session.provider, difference)


def check_translator_sample(bundle: Bundle, translator: Translator) -> float:
    """Translate a translator's sample, which also warms it up.

    Where two translations are all but equally good, another processor may choose the other one;
    then their scores are compared.

    Args:
        bundle: A verified bundle.
        translator: Its model.

    Returns:
        The largest difference to the stored log probabilities, relative to the largest of them
        or to 1 if that is more.

    Raises:
        BundleError: There is no sample, or none that can be run, or the answer differs.
    """

    def difference(sample: dict[str, Any]) -> float:
        differences, largest = [], 1.0  # of a sure answer the log probabilities are all but 0
        for search in sample["searches"]:
            options = TranslateOptions(beam_size=search["beam_size"])
            found = translator.translate(sample["sentences"], options)
            for stored, best in zip(search["answers"], map(_best, found), strict=True):
                if best["log_probs"]:  # nothing is computed for a blank sentence
                    differences.append(_difference(stored, best))
                    largest = max(largest, float(np.abs(_numbers(stored["log_probs"])).max()))
        if not differences:
            raise ValueError("it translates nothing")
        return float(np.max(differences) / largest)

    return _check(bundle, translator.provider, difference)


def write_sample(folder: Path, inputs: dict[str, np.ndarray], quantiles: np.ndarray) -> None:
    """Store a forecaster's request and its answer in a bundle's folder."""
    _write(
        folder,
        {
            "inputs": {
                name: {
                    "shape": list(array.shape),
                    "values": [None if np.isnan(x) else x for x in array.ravel().tolist()],
                }
                for name, array in inputs.items()
            },
            "quantiles": quantiles.ravel().tolist(),
        },
    )


def write_translator_sample(folder: Path, translator: Translator, sentences: Sequence[str]) -> None:
    """Store sentences, at least one of them not blank, and their translations.

    Args:
        folder: The bundle's.
        translator: Its model, on the CPU.
        sentences: What is translated when the bundle is checked; anyone who has it can read them.

    Raises:
        RefusedSentencesError: Some can't be translated.
    """
    searches = []
    for beam_size in _BEAM_SIZES:
        found = translator.translate(sentences, TranslateOptions(beam_size=beam_size))
        searches.append({"beam_size": beam_size, "answers": [_best(one) for one in found]})
    _write(folder, {"sentences": list(sentences), "searches": searches})


def _best(translation: Translation) -> dict[str, Any]:
    best = translation.hypotheses[0]
    return {
        "tokens": list(best.tokens),
        "log_probs": list(best.token_log_probs),
        "score": best.score,
    }


def _difference(stored: dict[str, Any], found: dict[str, Any]) -> float:
    if found["tokens"] == stored["tokens"]:
        expected = _numbers(stored["log_probs"])
        if len(expected) != len(found["log_probs"]):
            raise ValueError(f"it has {len(expected)} log probabilities for a translation's tokens")
        return float(np.abs(np.array(found["log_probs"]) - expected).max())
    return float(abs(found["score"] - stored["score"]))


def _check(
    bundle: Bundle, provider: str, difference_to: Callable[[dict[str, Any]], float]
) -> float:
    tolerance = TOLERANCES.get(bundle.manifest.precision)
    if tolerance is None:
        raise BundleError(
            f"bundle {bundle.path} has the precision {bundle.manifest.precision!r}; this foretell "
            f"knows {' and '.join(TOLERANCES)}. Install the foretell that wrote it."
        )
    if SAMPLE_FILE not in bundle.manifest.files:
        raise BundleError(f"bundle {bundle.path} has no {SAMPLE_FILE}; export the model again.")
    try:
        difference = difference_to(json.loads((bundle.path / SAMPLE_FILE).read_bytes()))
    except Exception as error:  # of a sample that holds anything; onnxruntime has errors of its own
        reason = (str(error).splitlines() or [""])[0]
        raise BundleError(
            f"bundle {bundle.path}: its own sample, {SAMPLE_FILE}, can't be run "
            f"({type(error).__name__}: {reason}); export the model again."
        ) from error
    if not difference <= tolerance:
        raise BundleError(
            f"bundle {bundle.path}: the answer to its own sample differs by {difference:.2g} of "
            f"the stored one on {provider}; at most {tolerance:g} is allowed."
        )
    return difference


def _write(folder: Path, sample: dict[str, Any]) -> None:
    text = json.dumps(sample, indent=1, allow_nan=False, ensure_ascii=False)
    (folder / SAMPLE_FILE).write_text(text + "\n", encoding="utf-8")


def _numbers(values: list[float]) -> Float64[np.ndarray, " n"]:
    """Take a list that must hold numbers and at least one."""
    numbers = np.array(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError("it has no answer")
    return numbers


def _inputs(sample: dict[str, Any]) -> dict[str, np.ndarray]:
    return {
        name: np.array(array["values"], dtype=np.float64).reshape(array["shape"])
        for name, array in sample["inputs"].items()
    }
