"""How good a bundle is on data that it was not trained on: what an int8 export compares."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from foretell.data.bundles.bundle import Bundle
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.text.normalising import normalise
from foretell.data.text.translation import TranslateOptions
from foretell.jobs.evaluation.backtest import evaluate
from foretell.jobs.evaluation.rivals import SEASONAL_NAIVE
from foretell.jobs.evaluation.translation_quality import check_sacrebleu
from foretell.jobs.tables.doors import with_covariates
from foretell.runtime import Forecaster, Translator

# Of a constant series the forecast is the constant; what they are has broken others.
_CONSTANTS = (7.25, 0.0, -3e-05, 123456789.0)
_CONSTANT_STEPS = 48


def translator_values(
    bundle: Bundle, src: Sequence[str], tgt: Sequence[str]
) -> tuple[int, dict[str, float]]:
    """Translate held-out sentences as `translate` does, with a beam of its default size.

    Args:
        bundle: A translator's.
        src: The sentences; those that are too long are cut.
        tgt: Their translations.

    Returns:
        The number of sentences that are not blank; "bleu" (sacreBLEU, 13a, with case) and
        "copied_share", the share of them whose translation is the sentence itself.
    """
    check_sacrebleu()
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415  - of the extra [evaluate]

    translator = Translator(bundle, device="cpu")
    found = translator.translate(src, TranslateOptions(truncate_source=True))
    texts = [translation.text for translation in found]
    pairs = zip(map(normalise, src), map(normalise, texts), strict=True)
    copied = [source == text for source, text in pairs if source.strip()]
    return len(copied), {
        "bleu": float(BLEU().corpus_score(texts, [list(tgt)]).score),
        "copied_share": sum(copied) / max(len(copied), 1),
    }


def forecaster_values(
    bundle: Bundle, table: pd.DataFrame, columns: Columns, *, freq: str | None = None
) -> tuple[int, dict[str, float]]:
    """Forecast the last steps of every series, as many as the model was trained for.

    Args:
        bundle: A forecaster's.
        table: Long table of series that end in steps the model was not trained on.
        columns: Names of id, time and target.
        freq: Frequency of all series; None infers each.

    Returns:
        The number of series; "mase", its mean, and "constant_error", the largest relative error of
        the forecasts of constant series.

    Raises:
        TableError: The table can't be understood, or no series is long enough.
    """
    forecaster = Forecaster(bundle, device="cpu")
    spec = forecaster.manifest.forecaster
    assert spec is not None  # a Forecaster refuses bundles that hold none
    found = evaluate(
        table,
        forecaster,
        columns=with_covariates(columns, spec),
        options=ForecastOptions.from_call(spec.horizon, freq=freq),
        baselines=(SEASONAL_NAIVE,),
    )
    return found.num_series, {
        "mase": found.scores[0].mase,
        "constant_error": _constant_error(forecaster),
    }


def _constant_error(forecaster: Forecaster) -> float:
    """Run the graph on constant series; covariates, where it has any, are 0."""
    spec = forecaster.manifest.forecaster
    assert spec is not None
    constants = np.array(_CONSTANTS)[:, None]
    sizes = {"context_len": _CONSTANT_STEPS, "horizon": spec.horizon, "batch": len(constants)}
    inputs = {}
    for tensor in forecaster.manifest.graphs[0].inputs:
        shape = [axis if isinstance(axis, int) else sizes[axis] for axis in tensor.shape]
        inputs[tensor.name] = np.zeros(shape)
    inputs["context"] += constants
    inputs["horizon_placeholder"][:] = np.nan
    quantiles = forecaster.run_graph("forecaster", inputs)["quantiles"]
    error = np.abs(quantiles - constants[:, :, None]).max(axis=(1, 2))
    return float((error / np.where(constants[:, 0] == 0, 1.0, np.abs(constants[:, 0]))).max())
