"""Pictures are for people; here what a program can judge: what is named, and what stays inside."""

import itertools

import numpy as np
import pytest

from foretell.jobs.pictures.gradients_plot import (
    GradientPicture,
    NormCurves,
    draw_gradients,
    gradients_figure,
)


def picture(rate, *, lags=12, bound_rate=2.5, width=32, gates=("reset", "update", "new")):
    lag = 1.0 + np.arange(lags)
    mean = rate**lag
    curves = NormCurves(
        lags=lag, mean=mean, low=mean / 3, high=mean * 3, bound=bound_rate**lag, line=mean
    )
    values = {gate: np.linspace(2.07 + i, 0.1, width) for i, gate in enumerate(gates)}
    return GradientPicture(
        title="decoder", note="vanishing", norms=curves if lags else None, singular_values=values
    )


def names(axis):
    return [name.get_text() for name in axis.get_ticklabels()]


PICTURES = {
    "vanish": picture(0.4),
    "vanish below all": picture(0.1, lags=43, bound_rate=0.3),
    "explode": picture(1.9, lags=43, bound_rate=6.0, width=512),
    "explode beyond all": picture(6.0, lags=43, bound_rate=9.0),
    "kept": picture(0.99, lags=3, width=8, gates=("input", "forget", "cell", "output")),
}


@pytest.mark.parametrize("name", PICTURES)
def test_curves_stay_inside_or_say_where_they_end(name):
    (curves,) = [PICTURES[name].norms]
    panel = gradients_figure([PICTURES[name]]).axes[0]
    low, high = panel.get_ylim()
    assert low < 1 < high  # what grows and what shrinks is seen at a glance
    told = [text.get_text() for text in panel.texts if text.get_text().startswith("ends at")]
    outside = [x for x in (curves.bound, curves.mean) if not low <= x[-1] <= high]
    assert told == [f"ends at $10^{{{round(np.log10(x[-1]))}}}$" for x in outside]


@pytest.mark.parametrize("name", PICTURES)
def test_axes_have_names_for_some_places_that_keep_apart(name):
    figure = gradients_figure([PICTURES[name]])
    figure.draw_without_rendering()
    norms, values = figure.axes
    assert "1" in names(norms.yaxis)
    for panel in (norms, values):
        for axis, side in ((panel.xaxis, "x"), (panel.yaxis, "y")):
            inside = sorted(
                (place, name)
                for place, name in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
                if axis.get_view_interval()[0] <= place <= axis.get_view_interval()[1]
            )
            assert 2 <= len(inside) <= 9
            boxes = [name.get_window_extent() for _, name in inside]
            for a, b in itertools.pairwise(boxes):
                assert getattr(a, f"{side}1") < getattr(b, f"{side}0")


def test_counts_start_at_1_and_the_largest_singular_values_are_named():
    panel = gradients_figure([PICTURES["vanish"]]).axes[1]
    assert names(panel.xaxis)[0] == "1"
    assert panel.get_xlim()[0] > 0
    told = [text.get_text() for text in panel.get_legend().get_texts()]
    assert told == ["reset, λ₁ = 2.07", "update, λ₁ = 3.07", "new, λ₁ = 4.07"]


def test_panels_have_one_scale():
    pictures = [PICTURES[name] for name in ("vanish", "kept", "explode")]
    panels = gradients_figure(pictures).axes[:3]
    assert len({panel.get_ylim() for panel in panels}) == 1


@pytest.mark.parametrize(
    "pictures",
    [
        [picture(0.5, lags=0)],
        [picture(0.5, lags=0), picture(0.5)],
        list(PICTURES.values()),
        [picture(0.0)],
        [picture(0.5)] * 13,
    ],
    ids=["unmeasured", "the first unmeasured", "two rows", "nothing left", "more than fit"],
)
@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_draws(tmp_path, pictures, ending):
    target = tmp_path / f"out{ending}"
    draw_gradients(pictures, target)
    start = target.read_bytes()[:5]
    assert start.startswith(b"\x89PNG" if ending == ".png" else b"<?xml")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
