"""The tour, but for its accuracy and its export, which other tests and `make demo` see to."""

import shutil

from foretell.cli import demo


def test_demo_leaves_model_forecast_and_picture(foretell, bundle_path, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_export", lambda _, target: shutil.copytree(bundle_path, target))
    ended = foretell("demo", "--output", "tour", "--steps", 2)
    assert ended.code == 0
    assert "to the last bit" in ended.err
    lines = ended.out.splitlines()
    assert len(lines) == 14
    assert lines[1].startswith("1960-01       417")
    assert lines[-1].startswith("MASE: foretell ")
    left = sorted(path.name for path in (tmp_path / "tour").iterdir())
    assert left == ["forecast.csv", "forecast.png", "models", "run"]
