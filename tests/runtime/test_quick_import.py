"""What pipelines import on every worker opens at once; the rest comes with a model that needs it.

Told by what is imported: seconds are a machine's own.
"""

import json
import subprocess
import sys

HEAVY = {"numpy", "pandas", "pyarrow", "onnxruntime", "sentencepiece", "jaxtyping", "matplotlib"}
NEVER = {"torch", "onnx", "onnxscript", "grpc", "google", "foretell.protos", "matplotlib"}


def imported(*lines: str) -> set[str]:
    """Modules that are there after a script ran in a fresh process."""
    script = "\n".join(["import json, sys", *lines, "print(json.dumps(list(sys.modules)))"])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_door_brings_nothing_heavy() -> None:
    """`from foretell.runtime import load` stands atop scripts that only hand a model on."""
    assert not imported("from foretell.runtime import load, load_translator") & (HEAVY | NEVER)


def test_a_translator_brings_no_pandas(make_translator) -> None:
    """It has no tables; pandas is half of all the seconds and 40 MiB of all the memory."""
    found = imported(
        "from foretell.runtime import load",
        f"model = load({str(make_translator())!r}, device='cpu', threads=1)",
        "model.translate(['one', 'the lamp is on .'])",
    )
    assert "onnxruntime" in found
    assert not found & (NEVER | {"pandas", "pyarrow"})


def test_a_forecaster_brings_what_tables_need_and_no_more(make_bundle) -> None:
    found = imported(
        "import pandas as pd",
        "from foretell.runtime import load",
        f"model = load({str(make_bundle())!r}, device='cpu', threads=1)",
        "days = pd.date_range('2024-01-01', periods=9)",
        "model.forecast(pd.DataFrame({'unique_id': 'a', 'ds': days, 'y': 1.0}), 2)",
    )
    assert "onnxruntime" in found
    assert not found & (NEVER | {"sentencepiece"})


def test_the_classes_have_their_names_at_the_door() -> None:
    """For annotations and isinstance; a name that isn't there says so as every module does."""
    import foretell.runtime
    from foretell.runtime import Forecaster, Translator
    from foretell.runtime.forecaster import Forecaster as TheForecaster

    assert Forecaster is TheForecaster
    assert Translator.__module__ == "foretell.runtime.translator"
    assert set(foretell.runtime.__all__) >= {"Forecaster", "Translator", "load"}
    assert not hasattr(foretell.runtime, "Forecasters")
