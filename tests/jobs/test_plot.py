"""Pictures are for people; here only what a program can judge: files, refusals, odd series."""

import sys

import numpy as np
import pytest

from foretell.data.errors import ForetellError, OptionError
from foretell.jobs.pictures.plot import SeriesPicture, check_plot, draw

PNG = b"\x89PNG\r\n\x1a\n"


def picture(title="a", *, kind="date", past=(1.0, 2.0, float("nan"), 3.0), levels=(0.1, 0.5, 0.9)):
    steps = np.arange(len(past) + 2)
    times = np.datetime64("2024-01-01", "ns") + steps * np.timedelta64(1, "D")
    times = times if kind == "date" else steps
    return SeriesPicture(
        title=title,
        past_times=times[: len(past)],
        past=np.array(past),
        times=times[len(past) :],
        quantile_levels=levels,
        quantiles=np.sort(np.random.default_rng(0).normal(size=(2, len(levels))), axis=1),
        forecast=np.zeros(2),
        actual=np.array([0.0, float("nan")]),
    )


@pytest.mark.parametrize(
    "pictures",
    [
        [picture()],
        [picture(str(i), kind="integer") for i in range(8)],
        [picture(levels=(0.3, 0.9)), picture("$x^2 ü 系列"), picture("long " * 50)],
        [picture(past=(float("nan"), float("nan")))],
        [picture(past=(5.0,), levels=())],
    ],
    ids=["one", "more than fit", "unpaired levels and odd titles", "no past", "one value"],
)
def test_draws_a_png(tmp_path, pictures):
    target = tmp_path / "out.png"
    draw(pictures, target)
    assert target.read_bytes().startswith(PNG)
    assert [path.name for path in tmp_path.iterdir()] == ["out.png"]


def test_an_unknown_ending_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"\.png, \.svg, \.pdf"):
        check_plot(tmp_path / "out.bmp")


def test_without_matplotlib_the_message_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ForetellError, match=r"pip install 'foretell\[plot\]'"):
        check_plot(tmp_path / "out.png")
