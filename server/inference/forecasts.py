"""A forecaster as a whole over the Open Inference Protocol: contexts in, quantiles out.

A context is a row of the model's own steps, with NaN where nothing was observed and on its left
where it is shorter than others. No stamps travel, so nothing is said of the calendar; all else is
as `foretell.v1.Forecaster` does it, and the numbers are the same.
"""

from collections.abc import Mapping

import numpy as np

from foretell.data.quoting import quoted
from foretell.data.series.panel import PanelForecast
from foretell.protos.arrays import pack_doubles, pack_integers
from foretell.protos.v1.arrays_pb2 import StampKind
from foretell.protos.v1.forecaster_pb2 import ForecastRequest, Future, History, NamedDoubles
from foretell.server.calls.answer_sizes import check_answer_size, forecast_bytes
from foretell.server.calls.answering import Answering
from foretell.server.calls.call import Call
from foretell.server.errors import RequestError
from foretell.server.inference.parameters import Value
from foretell.server.inference.signature import Limit, Signature, Tensor
from foretell.server.inference.tensors import bytes_array
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions
from foretell.server.services.forecaster_codec import ForecastTask, answer_bytes, read_request

ERRORS = "errors"
_STEP = "1"  # contexts have no calendar: a step is a step
_MOST_LEVELS = 100_000  # characters of the parameter


class ForecastInference:
    """Forecasts for the Open Inference Protocol.

    Attributes:
        model: Which answers.
        signature: What it takes and gives.
    """

    def __init__(self, model: Model, options: ServerOptions) -> None:
        self.model = model
        self._options = options
        _, self._spec = model.forecaster
        spec = self._spec
        inputs = [Tensor("context", "FP64", ("batch", "context_len"))]
        columns = (*spec.future_covariates, *spec.past_covariates)
        if columns:
            axes = ("batch", "context_len", len(columns))
            inputs.append(Tensor("context_covariates", "FP64", axes))
        if spec.future_covariates:
            axes = ("batch", "horizon", len(spec.future_covariates))
            inputs.append(Tensor("horizon_covariates", "FP64", axes))
        if spec.static:
            inputs.append(Tensor("static", "FP64", ("batch", len(spec.static))))
        self.signature = Signature(
            model=model.name,
            inputs=tuple(inputs),
            outputs=(
                Tensor("forecast", "FP64", ("batch", "horizon")),
                Tensor("quantiles", "FP64", ("batch", "horizon", "levels")),
                Tensor("quantile_levels", "FP64", ("levels",)),
                Tensor(ERRORS, "BYTES", ("batch",)),
            ),
            limits={
                "batch": Limit(options.max_series, "on this server (--max-series)"),
                "context_len": Limit(options.max_steps, "on this server (--max-steps)"),
                "horizon": Limit(options.max_horizon, "on this server (--max-horizon)"),
            },
            parameters={"horizon": "int", "quantile_levels": "text"},
            facts={
                "context_length": str(spec.context_length),
                "horizon": str(spec.horizon),
                "frequency": spec.frequency,
                "quantile_levels": ",".join(map(str, spec.quantile_levels)),
                "context_covariates": ",".join(columns),
                "horizon_covariates": ",".join(spec.future_covariates),
                "static": ",".join(spec.static),
            },
        )

    def read(self, arrays: Mapping[str, np.ndarray], own: Mapping[str, Value]) -> ForecastTask:
        """Check what is asked.

        Args:
            arrays: The inputs.
            own: The parameters of the model.

        Raises:
            RequestError: Something doesn't fit; all of it is listed.
            MessageSizeError: No answer could hold so much.
        """
        task = read_request(self._request(arrays, own), self._spec, self._options)
        check_answer_size(
            answer_bytes(len(task.rows.ids), task.options),
            self._options,
            "fewer rows",
            has="may have",
        )
        return task

    async def ask(
        self, answering: Answering, task: ForecastTask, _outputs: tuple[str, ...], call: Call
    ) -> PanelForecast:
        """Forecast every row of the context."""
        return await answering.forecast(self.model, task.rows, task.future, task.options, call)

    def answer_bytes(self, answer: PanelForecast) -> int:
        """What the forecasts take."""
        return forecast_bytes(answer)

    def write(
        self, task: ForecastTask, answer: PanelForecast, *, asks_errors: bool
    ) -> dict[str, np.ndarray]:
        """Lay the answers out as all the outputs.

        Args:
            task: What was asked.
            answer: To it.
            asks_errors: The caller looks at `errors`: refused rows may stand there.

        Raises:
            RequestError: Rows are refused, and the caller looks at no `errors`.
        """
        reasons = {
            refusal.position: refusal.reason
            for refusal in sorted(answer.refusals, key=lambda refusal: refusal.position)
        }
        if reasons and not asks_errors:
            raise RequestError(
                [f"context[{at}]: {reason}" for at, reason in reasons.items()]
                + [f"Ask for the output {ERRORS!r} by name to have the other rows answered."]
            )
        return _write(answer, len(task.rows.ids) + len(task.rows.refusals), reasons)

    def _request(
        self, arrays: Mapping[str, np.ndarray], own: Mapping[str, Value]
    ) -> ForecastRequest:
        """Say the same as a request of foretell's own protocol, whose checks and limits hold."""
        spec, context = self._spec, arrays["context"]
        num_rows, num_steps = context.shape
        first = np.argmax(~np.isnan(context), axis=1)  # 0 also where nothing was observed
        observed = np.arange(num_steps) >= first[:, None]
        ids = [str(row) for row in range(num_rows)]
        steps = np.broadcast_to(np.arange(num_steps), context.shape)
        known = arrays.get("horizon_covariates")
        horizon = self._horizon(own, None if known is None else known.shape[1])
        return ForecastRequest(
            horizon=horizon,
            quantile_levels=pack_doubles(np.array(self._levels(own))),
            frequency=_STEP,
            allow_other_frequency=True,
            history=History(
                ids=ids,
                lengths=pack_integers(num_steps - first),
                stamps=pack_integers(steps[observed]),
                stamp_kind=StampKind.STAMP_KIND_INTEGER,
                target=pack_doubles(context[observed]),
                covariates=_columns(
                    (*spec.future_covariates, *spec.past_covariates),
                    arrays.get("context_covariates"),
                    observed,
                ),
                static=_columns(spec.static, arrays.get("static"), slice(None)),
            ),
            future=None
            if known is None
            else Future(
                ids=ids,
                lengths=pack_integers(np.full(num_rows, horizon)),
                stamps=pack_integers(np.tile(num_steps + np.arange(horizon), num_rows)),
                covariates=_columns(
                    spec.future_covariates, known, np.ones(known.shape[:2], dtype=bool)
                ),
            ),
        )

    def _horizon(self, own: Mapping[str, Value], known: int | None) -> int:
        horizon = int(own.get("horizon", self._spec.horizon if known is None else known))
        if known is not None and horizon != known:
            raise RequestError(
                f"parameter 'horizon' is {horizon}, but horizon_covariates has {known} steps; "
                "leave one out or make them agree."
            )
        if not 0 < horizon < 2**31:
            raise RequestError(f"parameter 'horizon' is {horizon}; it must be at least 1.")
        return horizon

    def _levels(self, own: Mapping[str, Value]) -> tuple[float, ...]:
        if "quantile_levels" not in own:
            return self._spec.quantile_levels
        text = str(own["quantile_levels"])
        try:
            if len(text) <= _MOST_LEVELS:
                return tuple(float(level) for level in text.split(","))
        except ValueError:
            pass
        raise RequestError(
            f"parameter 'quantile_levels' is {quoted(text)}; send levels with commas between them, "
            "such as 0.1,0.5,0.9."
        )


def _columns(
    names: tuple[str, ...], values: np.ndarray | None, keep: np.ndarray | slice
) -> list[NamedDoubles]:
    """Take a covariate array apart, a column for each name."""
    if values is None:
        return []
    return [
        NamedDoubles(name=name, values=pack_doubles(values[..., at][keep]))
        for at, name in enumerate(names)
    ]


def _write(
    answer: PanelForecast, num_rows: int, reasons: Mapping[int, str]
) -> dict[str, np.ndarray]:
    """Put the answers into the places of their rows; a refused row holds NaN, and its reason."""
    kept = [row for row in range(num_rows) if row not in reasons]
    forecast = np.full((num_rows, *answer.forecast.shape[1:]), np.nan)
    quantiles = np.full((num_rows, *answer.quantiles.shape[1:]), np.nan)
    forecast[kept], quantiles[kept] = answer.forecast, answer.quantiles
    return {
        "forecast": forecast,
        "quantiles": quantiles,
        "quantile_levels": np.array(answer.quantile_levels),
        ERRORS: bytes_array([reasons.get(row, "") for row in range(num_rows)], (num_rows,)),
    }
