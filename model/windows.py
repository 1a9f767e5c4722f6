"""Training windows: random pieces of series, some patches hidden, some blended or flipped.

A batch depends on the seed and the step alone, so a run that was killed goes on with the very
batches it would have had.

Axes: N steps of all series, n series, B batch, L steps of a window (whole patches), M patches, A
    covariates (future
first, then past), S static inputs.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from foretell.model.config import ForecasterConfig, TrainingConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesSet:
    """Regular series in flat arrays.

    Attributes:
        indptr: Start of each series' steps, and the end.
        target: Data units, NaN = unobserved.
        covariates: Columns known for the future first, then those of the past only.
        static: Constant inputs.
    """

    indptr: Int64[np.ndarray, " n1"]
    target: Float64[np.ndarray, " N"]
    covariates: Float64[np.ndarray, "N A"]
    static: Float64[np.ndarray, "n S"]

    @property
    def lengths(self) -> Int64[np.ndarray, " n"]:
        """Steps of each series."""
        return np.diff(self.indptr)

    def before(self, limits: Int64[np.ndarray, " n"]) -> Bool[np.ndarray, " N"]:
        """Mark the first `limits` steps of each series."""
        steps = np.arange(len(self.target)) - np.repeat(self.indptr[:-1], self.lengths)
        marked: Bool[np.ndarray, " N"] = steps < np.repeat(limits, self.lengths)
        return marked

    def windows(
        self,
        series: Int64[np.ndarray, " B"],
        ends: Int64[np.ndarray, " B"],
        length: int,
    ) -> tuple[Float64[np.ndarray, "B L"], Float64[np.ndarray, "B L A"]]:
        """Cut the `length` steps before each end; NaN where a series hadn't begun, or is over."""
        steps = ends[:, None] + np.arange(-length, 0)
        inside = (steps >= 0) & (steps < self.lengths[series][:, None])
        rows = np.where(inside, self.indptr[series][:, None] + steps, 0)
        return (
            np.where(inside, self.target[rows], np.nan),
            np.where(inside[..., None], self.covariates[rows], np.nan),
        )


Batch = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class WindowSampler:
    """Random windows that end before each series' limit.

    Attributes:
        series: The data.
        limits: Steps of each series that may be seen in training.
        model: Shape of the model.
        training: Seed, batch size and augmentation.
        horizon: Longest horizon to train for; hidden stretches are up to twice as long.
    """

    series: SeriesSet
    limits: Int64[np.ndarray, " n"]
    model: ForecasterConfig
    training: TrainingConfig
    horizon: int

    def __call__(self, step: int) -> Batch:
        """Return the batch of a step."""
        rng = np.random.default_rng((self.training.seed, step))
        count = self.training.batch_size
        patch = self.model.patch_length
        length = self.model.context_length + -(-self.horizon // patch) * patch
        # Long series hold more to learn, up to the length of a window.
        weights = np.minimum(self.limits, length).astype(np.float64)
        chosen = rng.choice(len(weights), size=count, p=weights / weights.sum())
        values, covariates = self._cut(rng, chosen, length)
        if not covariates.shape[2]:  # blended series would not belong to anybody's covariates
            values = self._blend(rng, values, length)
            flipped = rng.random(count) < self.training.sign_flip
            values = np.where(flipped[:, None], -values, values)
        hidden = self._hidden(rng, length // patch)
        return _batch(values, covariates, self.series.static[chosen], hidden)

    def _cut(
        self, rng: np.random.Generator, chosen: Int64[np.ndarray, " B"], length: int
    ) -> tuple[Float64[np.ndarray, "B L"], Float64[np.ndarray, "B L A"]]:
        least = np.minimum(self.limits[chosen], 2 * self.model.patch_length)
        ends = rng.integers(least, self.limits[chosen], endpoint=True)
        return self.series.windows(chosen, ends, length)

    def _blend(
        self, rng: np.random.Generator, values: Float64[np.ndarray, "B L"], length: int
    ) -> Float64[np.ndarray, "B L"]:
        """Blend some windows with others of the batch, each at its own scale."""
        count = len(values)
        partner = rng.permutation(count)
        share = np.where(rng.random(count) < self.training.mixing, rng.random(count), 1.0)[:, None]
        observed = ~np.isnan(values)
        seen = np.maximum(observed.sum(axis=1, keepdims=True), 1)
        mean = np.where(observed, values, 0.0).sum(axis=1, keepdims=True) / seen
        spread = np.where(observed, values - mean, 0.0)
        std = np.sqrt((spread * spread).sum(axis=1, keepdims=True) / seen)
        std = np.where(std > 0, std, 1.0)
        shape = (values - mean) / std
        blended = (share * shape + (1 - share) * shape[partner]) * std + mean
        return np.where((share < 1) & ~np.isnan(blended), blended, values)

    def _hidden(self, rng: np.random.Generator, patches: int) -> Bool[np.ndarray, "B M"]:
        """Hide up to three contiguous stretches of patches in a share of the windows."""
        count = self.training.batch_size
        longest = max(1, min(2 * -(-self.horizon // self.model.patch_length), patches // 2))
        hidden = np.zeros((count, patches), dtype=bool)
        steps = np.arange(patches)
        masked = rng.random(count) < self.training.mask_share
        stretches = rng.integers(1, 3, size=count, endpoint=True)
        for stretch in range(3):
            size = rng.integers(1, longest, size=count, endpoint=True)
            start = rng.integers(1, patches, size=count)
            inside = (steps >= start[:, None]) & (steps < (start + size)[:, None])
            hidden |= inside & (masked & (stretch < stretches))[:, None]
        return hidden


def validation_batches(
    series: SeriesSet,
    limits: Int64[np.ndarray, " n"],
    ends: Int64[np.ndarray, " n"],
    model: ForecasterConfig,
    horizon: int,
    batch_size: int,
) -> list[Batch]:
    """Cut the windows whose last `horizon` steps, hidden as in a real forecast, follow each limit.

    Args:
        series: The data.
        limits: Step at which each series' forecast starts.
        ends: Step at which it ends; series without a step between the two are left out.
        model: Shape of the model.
        horizon: Steps to forecast.
        batch_size: Windows a batch.
    """
    patch = model.patch_length
    ahead = -(-horizon // patch) * patch
    length = model.context_length + ahead
    chosen = np.flatnonzero(ends > limits)
    hidden = np.arange(length // patch) >= (length - ahead) // patch
    batches = []
    for start in range(0, len(chosen), batch_size):
        part = chosen[start : start + batch_size]
        values, covariates = series.windows(part, limits[part] + ahead, length)
        values[:, length - ahead + horizon :] = np.nan
        batch = _batch(values, covariates, series.static[part], np.tile(hidden, (len(part), 1)))
        batches.append({**batch, "scored": batch["hidden"]})
    return batches


def _batch(
    values: Float64[np.ndarray, "B L"],
    covariates: Float64[np.ndarray, "B L A"],
    static: Float64[np.ndarray, "B S"],
    hidden: Bool[np.ndarray, "B M"],
) -> Batch:
    batch = {"values": torch.from_numpy(values), "hidden": torch.from_numpy(hidden)}
    if covariates.shape[2]:
        batch["covariates"] = torch.from_numpy(covariates)
    if static.shape[1]:
        batch["static"] = torch.from_numpy(static)
    return batch
