"""Doors, forecasters and translators without a model: their answers are known beforehand."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from foretell.data.bundles.bundle import ForecasterSpec, TranslatorSpec
from foretell.data.series.answers import forecast_table, raise_refused, warn_unused
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import PanelForecast
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_future_rows, read_rows
from foretell.data.text.normalising import is_copied, normalise
from foretell.data.text.translation import (
    Hypothesis,
    PairScore,
    RefusedSentencesError,
    SentenceRefusal,
    TranslateOptions,
    Translation,
)
from foretell.jobs.lines.doors import TranslatorDoor
from foretell.jobs.tables.doors import Door

MOST_WORDS = 10


def spec(**changes):
    values = {
        "context_length": 512,
        "patch_length": 12,
        "horizon": 12,
        "frequency": "any",
        "season_length": 1,
        "quantile_levels": (0.1, 0.5, 0.9),
    }
    return ForecasterSpec(**(values | changes))


class StandIn:
    """A forecaster that answers what `rule(context, horizon)` says, at every level.

    Attributes:
        asked: The rows, future rows and options of every question.
    """

    def __init__(self, rule=lambda context, horizon: np.full(horizon, context[-1]), **changes):
        self.manifest = SimpleNamespace(forecaster=spec(**changes), training={})
        self.provider = "StandIn"
        self.rule = rule
        self.asked = []

    def forecast_rows(self, rows, future, options):
        self.asked.append((rows, future, options))
        panel = regularise(
            rows,
            options=options,
            future=future,
            future_names=self.manifest.forecaster.future_covariates,
            model_frequency=self.manifest.forecaster.frequency,
        )
        shape = (len(panel.ids), options.horizon)
        forecast, stamps = np.empty(shape), np.empty(shape, dtype=np.int64)
        for i, frequency in enumerate(panel.frequencies):
            context = panel.target[panel.indptr[i] : panel.indptr[i + 1]]
            forecast[i] = self.rule(context[~np.isnan(context)], options.horizon)
            last = panel.last[i : i + 1]
            stamps[i] = frequency.after(last, options.horizon, panel.time_zone)[0]
        levels = options.quantile_levels
        return PanelForecast(
            ids=panel.ids,
            frequencies=panel.frequencies,
            stamp_kind=panel.stamp_kind,
            time_zone=panel.time_zone,
            stamps=stamps,
            forecast=forecast,
            quantile_levels=levels,
            quantiles=np.repeat(forecast[:, :, None], len(levels), axis=2),
            refusals=panel.refusals,
            warnings=panel.warnings,
        )

    def forecast(
        self,
        df,
        horizon,
        *,
        quantiles,
        level,
        freq,
        future,
        id_col,
        time_col,
        target_col,
        time_zone,
        allow_other_frequency,
    ):
        own = self.manifest.forecaster
        columns = Columns(
            unique_id=id_col,
            ds=time_col,
            y=target_col,
            time_zone=time_zone,
            future_covariates=own.future_covariates,
        )
        options = ForecastOptions.from_call(
            horizon,
            quantiles=quantiles,
            level=level,
            freq=freq,
            allow_other_frequency=allow_other_frequency,
        )
        known = None if future is None else read_future_rows(future, columns)
        answer = self.forecast_rows(read_rows(df, columns), known, options)
        warn_unused(answer)
        table = forecast_table(answer, id_col=id_col, time_col=time_col)
        raise_refused(answer, table)
        return table

    @contextmanager
    def door(self):
        own = self.manifest.forecaster
        yield Door(forecast_rows=self.forecast_rows, where="StandIn", spec=own)


@pytest.fixture(scope="session")
def stand_in():
    return StandIn


class Backwards:
    """Answers each sentence with its words in reverse; more than ten are refused.

    Attributes:
        asked: The sentences and options of every call.
        places: The place of the first sentence of every call.
    """

    def __init__(self, *, has_attention=True):
        self.asked, self.places = [], []
        self.has_attention = has_attention

    def translate(self, sentences, options, *, first_place=0):
        options = [options] * len(sentences) if isinstance(options, TranslateOptions) else options
        assert len(options) == len(sentences)
        self.asked.append((list(sentences), options))
        self.places.append(first_place)
        answers, refusals = [], []
        for place, (text, chosen) in enumerate(zip(sentences, options, strict=True)):
            words = normalise(text).split(" ")
            if len(words) > MOST_WORDS and not chosen.truncate_source:
                reason = f"it has {len(words)} words; the model reads {MOST_WORDS}."
                refusals.append(SentenceRefusal(place, reason))
                answers.append(None)
            else:
                answers.append(self._answer(text, words, chosen))
        if refusals:
            raise RefusedSentencesError(refusals, answers)
        return answers

    def _answer(self, text, words, options):
        if is_copied(text):
            return Translation(hypotheses=(Hypothesis(text=text),), copied=bool(normalise(text)))
        read = words[:MOST_WORDS]
        weights = np.eye(len(read), dtype=np.float32)[::-1]
        hypotheses = [
            Hypothesis(
                text=" ".join(reversed(read)) + f" {rank}" * (rank > 0),
                tokens=tuple(f"\u2581{word}" for word in reversed(read)),
                token_log_probs=(-0.5,) * (len(read) + 1),
                log_prob=-0.5 * (len(read) + 1) - rank,
                score=-0.5 - rank,
                attention=weights if options.attention and self.has_attention else None,
            )
            for rank in range(options.n_best)
        ]
        return Translation(
            hypotheses=tuple(hypotheses),
            source_tokens=tuple(f"\u2581{word}" for word in read),
            truncated=len(words) > MOST_WORDS,
        )

    def score(self, pairs):
        self.asked.append(list(pairs))
        answers = [
            None
            if tgt == "?"
            else PairScore(
                tokens=tuple(tgt.split()),
                token_log_probs=(-1.0,) * (len(tgt.split()) + 1),
                log_prob=-1.0 * (len(tgt.split()) + 1),
                score=-1.0,
            )
            for _, tgt in pairs
        ]
        refusals = [
            SentenceRefusal(place, "the target is too long.")
            for place, answer in enumerate(answers)
            if answer is None
        ]
        if refusals:
            raise RefusedSentencesError(refusals, answers)
        return answers

    @contextmanager
    def door(self, **changes):
        yield TranslatorDoor(
            **changes,
            translate=self.translate,
            score=self.score,
            where="Backwards",
            spec=TranslatorSpec(
                arch="transformer",
                vocab_size=100,
                max_source_length=MOST_WORDS + 1,
                max_target_length=MOST_WORDS + 1,
                has_attention=self.has_attention,
            ),
        )


@pytest.fixture(scope="session")
def backwards():
    return Backwards
