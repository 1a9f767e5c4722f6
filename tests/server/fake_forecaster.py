"""A forecaster without a graph: the last observed value, spread by the level.

It lays series on their grids with the real code, so refusals and stamps are real; only the numbers
are simple enough to be known beforehand. What a test wants to go wrong can be switched on.
"""

import threading
import time

import numpy as np

from foretell.data.bundles.bundle import ForecasterSpec, Manifest
from foretell.data.series.panel import PanelForecast
from foretell.data.series.regular import regularise
from foretell.runtime.queues.work import Plan, Row


def make_manifest(
    *, future_covariates=(), past_covariates=(), static=(), frequency="any", training=None
):
    return Manifest(
        kind="forecaster",
        precision="fp32",
        config={},
        forecaster=ForecasterSpec(
            context_length=64,
            patch_length=8,
            horizon=16,
            frequency=frequency,
            season_length=1,
            quantile_levels=(0.1, 0.5, 0.9),
            future_covariates=future_covariates,
            past_covariates=past_covariates,
            static=static,
        ),
        graphs=(),
        training=training or {},
        tool_versions={},
    )


class FakeForecaster:
    """Answers `last + level - 0.5 + future covariates + static`; counts and records its calls."""

    provider = "FakeExecutionProvider"
    threads = 2

    def __init__(self, *, delay_s=0.0, error=None, **manifest):
        self.manifest = make_manifest(**manifest)
        self.delay_s = delay_s
        self.error = error
        self.calls = []
        self.own_threads = set()

    def plan_forecast(self, rows, future, options, *, on_step=None):
        answers = []

        def run(batch):
            answers.append(self.forecast_rows(rows, future, options))
            batch.put(0)

        return Plan([Row(run, None, None)], lambda: answers[-1])

    def forecast_rows(self, rows, future, options):
        self.calls.append((rows, future, options))
        self.own_threads.add(threading.current_thread())
        time.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        spec = self.manifest.forecaster
        panel = regularise(
            rows,
            options=options,
            future=future,
            future_names=spec.future_covariates,
            model_frequency=spec.frequency,
        )
        horizon, zone = options.horizon, panel.time_zone
        after = [
            frequency.after(panel.last[i : i + 1], horizon, zone)
            for i, frequency in enumerate(panel.frequencies)
        ]
        base = np.array([_last_observed(panel, i) for i in range(len(panel.ids))])
        point = base.reshape(-1, 1) + panel.horizon_covariates.sum(axis=2)
        point = point + panel.static.sum(axis=1, keepdims=True)
        levels = np.array(options.quantile_levels)
        return PanelForecast(
            ids=panel.ids,
            frequencies=panel.frequencies,
            stamp_kind=panel.stamp_kind,
            time_zone=zone,
            stamps=np.concatenate([np.empty((0, horizon), np.int64), *after]),
            forecast=point,
            quantile_levels=options.quantile_levels,
            quantiles=point[:, :, None] + levels - 0.5,
            refusals=panel.refusals,
            warnings=panel.warnings,
        )


def _last_observed(panel, series):
    values = panel.target[panel.indptr[series] : panel.indptr[series + 1]]
    return values[~np.isnan(values)][-1]
