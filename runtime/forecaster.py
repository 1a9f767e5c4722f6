"""Forecasts in the caller's own process: tables or rows in, quantiles on true calendar days out.

Axes: n series, H horizon.
"""

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from foretell.data.bundles.bundle import (
    Bundle,
    ForecasterSpec,
    Manifest,
    TensorSpec,
    read_bundle,
    resolve_bundle,
)
from foretell.data.calendars.calendar import Frequency
from foretell.data.errors import BundleError, Refusal
from foretell.data.series.answers import forecast_table, raise_refused, warn_unused
from foretell.data.series.grid import OnStep, by_frequency
from foretell.data.series.options import Columns, ForecastOptions
from foretell.data.series.panel import Panel, PanelForecast, Rows
from foretell.data.series.regular import regularise
from foretell.data.series.rows import read_future_rows, read_rows
from foretell.runtime.batching import check_horizon
from foretell.runtime.origin import Origin
from foretell.runtime.panels import forecast_quantiles, input_names
from foretell.runtime.quantiles import check_levels
from foretell.runtime.queues.series_rows import SeriesRows
from foretell.runtime.queues.work import Plan
from foretell.runtime.search.stopping import Stop
from foretell.runtime.session import Session

GRAPH_FILE = "forecaster.onnx"
POINT_LEVEL = 0.5


class Forecaster:
    """A loaded forecaster. Many threads may use it at once; a pickled one loads its bundle again.

    Attributes:
        manifest: What the bundle says of the model.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Bundle,
        *,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Load a bundle.

        Args:
            path: A bundle's folder, or a model's folder, whose newest version is taken; or a
                bundle that `read_bundle` has read.
            device: "cpu"; "cuda"; or "auto", which is CUDA where it works and else the CPU.
            threads: Compute threads; None takes the cores that this process may use.

        Raises:
            BundleError: The bundle is missing, incomplete, damaged, or holds no forecaster.
            DeviceError: CUDA was asked for and can't be had.
            OptionError: `device` or `threads` is none that there is.
        """
        bundle = path if isinstance(path, Bundle) else read_bundle(resolve_bundle(path))
        self.manifest: Manifest = bundle.manifest
        self._spec = _check_forecaster(bundle)
        self._session = Session(bundle, GRAPH_FILE, device=device, threads=threads)
        self._rows = SeriesRows(self._session, self._spec)
        self._origin = Origin.of(bundle, device, threads)

    @property
    def provider(self) -> str:
        """The onnxruntime provider in use, such as "CPUExecutionProvider"."""
        return self._session.provider

    @property
    def session(self) -> Session:
        """The graph, ready to run."""
        return self._session

    @property
    def busy_s(self) -> float:
        """Seconds in which the model's graphs have been running so far, summed over all threads."""
        return self._session.busy_s

    def __reduce__(self) -> tuple[Callable[..., "Forecaster"], tuple[object, ...]]:
        return _reload, (self._origin,)

    def __copy__(self) -> "Forecaster":
        return self  # nothing in it changes, so a copy would only be memory

    def __deepcopy__(self, memo: dict[int, object]) -> "Forecaster":
        return self

    def __repr__(self) -> str:
        return f"Forecaster({str(self._origin.path)!r}, provider={self.provider!r})"

    def forecast(
        self,
        df: pd.DataFrame,
        horizon: int,
        *,
        quantiles: Sequence[float] | None = None,
        level: Sequence[float] | None = None,
        freq: str | int | None = None,
        future: pd.DataFrame | None = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        time_zone: str | None = None,
        allow_other_frequency: bool = False,
    ) -> pd.DataFrame:
        """Forecast every series of a table in long format.

        The columns of the covariates are those that the model was trained with.

        Args:
            df: A row a step, in any order; missing steps and blank targets are unobserved.
            horizon: Steps ahead, from each series' own last row.
            quantiles: Levels to return, inside the range that the model was trained for.
            level: Central intervals in percent instead: 80 asks for the quantiles 0.1 and 0.9.
            freq: Frequency of every series; None infers each.
            future: The known-future covariates over the horizon, where the model has any.
            id_col: Column of the series' id.
            time_col: Column of the time stamp, or of the integer step.
            target_col: Column of the target.
            time_zone: Zone in which zoned stamps step days, weeks and months.
            allow_other_frequency: Forecast series of another frequency than the model's.

        Returns:
            Series by first appearance, `horizon` rows each: id, time, `forecast` (the 0.5 quantile)
            and a column for each level, `q0.1` and so on.

        Raises:
            RefusedSeriesError: Some series can't be forecast; it names them and why, and carries
                the table of all others.
            TableError: The table as a whole can't be understood.
            OptionError: An option is out of its range.
        """
        options = ForecastOptions.from_call(
            horizon,
            quantiles=quantiles,
            level=level,
            freq=freq,
            allow_other_frequency=allow_other_frequency,
        )
        columns = Columns(
            unique_id=id_col,
            ds=time_col,
            y=target_col,
            future_covariates=self._spec.future_covariates,
            past_covariates=self._spec.past_covariates,
            static=self._spec.static,
            time_zone=time_zone,
        )
        answer = self.forecast_rows(
            read_rows(df, columns),
            None if future is None else read_future_rows(future, columns),
            options,
        )
        table = forecast_table(answer, id_col=id_col, time_col=time_col)
        warn_unused(answer)
        raise_refused(answer, table)
        return table

    def forecast_rows(
        self,
        rows: Rows,
        future: Rows | None,
        options: ForecastOptions,
        *,
        stop: Stop | None = None,
    ) -> PanelForecast:
        """Forecast typed rows: what servers and jobs call.

        Args:
            rows: The series, with the model's covariates in its order.
            future: The known-future covariates over the horizon; None where the model has none.
            options: What to forecast.
            stop: Ends the computation when set.

        Returns:
            The answers, and the series refused with their reasons.

        Raises:
            StoppedError: `stop` was set before the end.
            OptionError: A quantile level lies outside the trained range, or the horizon is longer
                than one pass can hold.
        """
        panel, positions = self._read(rows, future, options)
        quantiles, seen = forecast_quantiles(
            self._session, self._spec, panel, options.horizon, _levels(options), stop=stop
        )
        return self._write(panel, positions, quantiles, seen, options)

    @property
    def threads(self) -> int:
        """Batches that are worth being computed at a time."""
        return self._session.threads

    def plan_forecast(
        self,
        rows: Rows,
        future: Rows | None,
        options: ForecastOptions,
        *,
        on_step: OnStep | None = None,
    ) -> Plan[PanelForecast]:
        """Read rows, and leave the computation to a queue; else as `forecast_rows`.

        Args:
            rows: The series, with the model's covariates in its order.
            future: The known-future covariates over the horizon; None where the model has none.
            options: What to forecast.
            on_step: Called again and again while rows are read; what it raises ends that.
        """
        panel, positions = self._read(rows, future, options, on_step)
        parts, found = self._rows.rows(panel, options.horizon, _levels(options))
        return Plan(
            parts,
            lambda: self._write(panel, positions, found.values, found.seen, options),
            answer_bytes=found.values.nbytes,
        )

    def run_graph(
        self,
        graph: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str] | None = None,
        *,
        stop: Stop | None = None,
    ) -> dict[str, np.ndarray]:
        """Run the bundle's graph, "forecaster"; as `Session.run`."""
        return {"forecaster": self._session}[graph].run(inputs, outputs, stop=stop)

    def _read(
        self,
        rows: Rows,
        future: Rows | None,
        options: ForecastOptions,
        on_step: OnStep | None = None,
    ) -> tuple[Panel, list[int]]:
        """Lay the series on their grids; tell where in the caller's input each stands."""
        check_levels(self._spec.quantile_levels, options.quantile_levels)
        check_horizon(
            options.horizon,
            context_length=self._spec.context_length,
            patch_length=self._spec.patch_length,
        )
        panel = regularise(
            rows,
            options=options,
            future=future,
            future_names=self._spec.future_covariates,
            model_frequency=self._spec.frequency,
            max_steps=self._spec.context_length,
            on_step=on_step,
        )
        refused = {refusal.position for refusal in panel.refusals}
        positions = [place for place in rows.positions.tolist() if place not in refused]
        return panel, positions

    def _write(
        self,
        panel: Panel,
        positions: Sequence[int],
        quantiles: Float64[np.ndarray, "n H Q"],
        seen: Bool[np.ndarray, " n"],
        options: ForecastOptions,
    ) -> PanelForecast:
        """Stamp the answers to a panel, and refuse what has none."""
        finite = np.isfinite(quantiles).all(axis=(1, 2))
        kept = np.flatnonzero(seen & finite)
        refusals = [
            Refusal(positions[i], panel.ids[i], self._reason(seen=bool(seen[i])))
            for i in np.flatnonzero(~(seen & finite)).tolist()
        ]
        frequencies = tuple(panel.frequencies[i] for i in kept.tolist())
        return PanelForecast(
            ids=panel.ids[kept],
            frequencies=frequencies,
            stamp_kind=panel.stamp_kind,
            time_zone=panel.time_zone,
            stamps=_stamps(frequencies, panel.last[kept], options.horizon, panel.time_zone),
            forecast=quantiles[kept, :, 0],
            quantile_levels=options.quantile_levels,
            quantiles=quantiles[kept, :, 1:],
            refusals=tuple(
                sorted([*panel.refusals, *refusals], key=lambda refusal: refusal.position)
            ),
            warnings=panel.warnings,
        )

    def _reason(self, *, seen: bool) -> str:
        if not seen:
            return (
                f"no value is observed in the last {self._spec.context_length} steps, and the "
                "model looks no further back; end the series at its last observed value."
            )
        return "the model's answer is not finite; give the values in another unit."


def _check_forecaster(bundle: Bundle) -> ForecasterSpec:
    manifest = bundle.manifest
    if manifest.forecaster is None:
        raise BundleError(f"bundle {bundle.path} holds a {manifest.kind}; expected a forecaster.")
    inputs = manifest.graph(GRAPH_FILE).inputs
    names = [tensor.name for tensor in inputs]
    expected = input_names(manifest.forecaster)
    if names != expected:
        raise BundleError(
            f"bundle {bundle.path}: the inputs of {GRAPH_FILE} are {names}; those of this "
            f"forecaster must be {expected}."
        )
    fixed = [tensor for tensor in inputs if any(isinstance(axis, int) for axis in _free(tensor))]
    if fixed:
        shapes = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in fixed)
        raise BundleError(
            f"bundle {bundle.path}: {GRAPH_FILE} takes only certain numbers of series or steps "
            f"({shapes}); export it with axes of any size."
        )
    return manifest.forecaster


def _free(tensor: TensorSpec) -> tuple[str | int, ...]:
    """The axes of an input that follow from what is asked: its series, and their steps."""
    return tensor.shape[:1] if tensor.name == "static" else tensor.shape[:2]


def _levels(options: ForecastOptions) -> tuple[float, ...]:
    return (POINT_LEVEL, *options.quantile_levels)


def _stamps(
    frequencies: Sequence[Frequency],
    last: Int64[np.ndarray, " n"],
    horizon: int,
    time_zone: str | None,
) -> Int64[np.ndarray, "n H"]:
    stamps = np.empty((len(last), horizon), dtype=np.int64)
    for alike in by_frequency(frequencies, np.ones(len(last), dtype=bool)):
        stamps[alike.members] = alike.frequency.after(
            last[alike.members], horizon, time_zone, multiples=alike.multiples
        )
    return stamps


def _reload(origin: Origin) -> Forecaster:
    return Forecaster(origin.read(), device=origin.device, threads=origin.threads)
