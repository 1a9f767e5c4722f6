"""The tour, in few steps: everything but the accuracy."""

import os


def test_demo_leaves_model_forecast_and_picture(foretell_process, tmp_path):
    ended = foretell_process("demo", "--output", "tour", "--steps", 2)
    assert ended.code == 0
    assert "to the last bit" in ended.err
    lines = ended.out.splitlines()
    assert len(lines) == 14
    assert lines[1].startswith("1960-01       417")
    assert lines[-1].startswith("MASE: foretell ")
    assert sorted(os.listdir(tmp_path / "tour")) == [
        "forecast.csv",
        "forecast.png",
        "models",
        "run",
    ]
