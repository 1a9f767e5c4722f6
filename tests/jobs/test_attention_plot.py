"""Pictures are for people; here only what a program can judge: files, odd sizes, odd letters."""

import numpy as np
import pytest

from foretell.jobs.pictures.attention_plot import AttentionPicture, draw_attention


def picture(num_source, num_target, text="wort", title="line 1"):
    weights = np.random.default_rng(0).random((num_target, num_source), dtype=np.float32)
    return AttentionPicture(
        title=title,
        source_tokens=("\u2581" + text,) * num_source,
        target_tokens=(text,) * num_target,
        weights=weights / weights.sum(axis=1, keepdims=True),
    )


@pytest.mark.parametrize(
    "pictures",
    [
        [picture(8, 9, title="")],
        [picture(1, 1)],
        [picture(3, 4), picture(12, 2), picture(2, 12)],
        [picture(3, 3, text) for text in ("$x^2$", "系列", "w" * 60, "", "\n")],
        [picture(90, 70)],
    ],
    ids=["one", "one cell", "three sizes", "odd letters, more than fit", "long"],
)
@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_draws(tmp_path, pictures, ending):
    target = tmp_path / f"out{ending}"
    draw_attention(pictures, target)
    start = target.read_bytes()[:5]
    assert start.startswith(b"\x89PNG" if ending == ".png" else b"<?xml")
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
