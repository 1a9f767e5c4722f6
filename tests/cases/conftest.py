"""One question through every door of the whole product: `forecast` is a fixture of each in turn.

A file is given to the command as it stands and read by `read_table` for the others; a DataFrame
is given to the command as Parquet. Whatever a door says comes back in one shape, and what the
command promises beside its answer (exit code, side file, no traceback, nothing half-written) is
checked at every single call.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
import pytest

from foretell.cli.main import run
from foretell.client import Client
from foretell.data.errors import ForetellError, OptionError, RefusedSeriesError, TableWarning
from foretell.data.series.options import Columns
from foretell.data.tables.reading import CsvFormat, read_table
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository

CASES = Path(__file__).parent
_LARGE_ROWS = 10_000
NO_ROWS = pd.DataFrame({"unique_id": [], "ds": [], "forecast": []})


@dataclass(frozen=True)
class Answer:
    """What a door said: forecasts, the refused ids with their reasons, warnings."""

    table: pd.DataFrame
    refusals: dict[object, str]
    warnings: tuple[str, ...]

    def series(self, unique_id: object) -> pd.DataFrame:
        return self.table[self.table["unique_id"] == unique_id].reset_index(drop=True)

    def values(self, unique_id: object) -> np.ndarray:
        return self.series(unique_id).iloc[:, 2:].to_numpy()

    def stamps(self, unique_id: object) -> list[str]:
        return [
            stamp.isoformat().removesuffix("T00:00:00") for stamp in self.series(unique_id)["ds"]
        ]


@pytest.fixture(scope="session")
def models(bundle_path, daily_bundle_path, covariate_bundle_path, tmp_path_factory) -> Path:
    """A folder of models: any, daily, covariates, and stored-H and so on of HA14."""
    root = tmp_path_factory.mktemp("repository")
    bundles = {
        "any": bundle_path,
        "daily": daily_bundle_path,
        "covariates": covariate_bundle_path,
    }
    for name, bundle in bundles.items():
        shutil.copytree(bundle, root / name / "1")
    for case in json.loads((CASES / "HA14.json").read_text()):
        name = f"stored-{case['stored_freq']}"
        shutil.copytree(daily_bundle_path, root / name / "1")
        store_frequency(root / name / "1" / "manifest.json", case["stored_freq"])
    return root


def store_frequency(file: Path, frequency: str) -> None:
    """Write a frequency into a manifest as an older foretell would have."""
    text = file.read_text()
    digest = json.loads(text)["digest"]
    changed = text.replace('"frequency": "D"', f'"frequency": "{frequency}"')
    assert changed != text
    blank = changed.replace(f'"digest": "{digest}"', '"digest": ""')
    new = hashlib.sha256(blank.encode()).hexdigest()
    file.write_text(blank.replace('"digest": ""', f'"digest": "{new}"'))


@pytest.fixture(scope="session")
def forecasters(models):
    """Loaded models by name, kept for the session."""
    loaded = {}

    def get(name: str):
        if name not in loaded:
            loaded[name] = load(models / name, device="cpu", threads=1)
        return loaded[name]

    return get


@pytest.fixture(scope="module")
def server(models):
    """The address of a server of all models, started when first asked for.

    Of a module, because servers of other tests have event loops of their own.
    """
    with ExitStack() as stack:
        found = []

        def address() -> str:
            if not found:
                repository = Repository.load(models, partial(load, device="cpu"))
                assert repository.failures == ()
                found.append(stack.enter_context(serve_in_background(repository)))
            return found[0]

        yield address


@pytest.fixture(scope="session")
def library(forecasters):
    """In this process: `foretell.runtime.load(...).forecast(...)`."""

    def ask(data, horizon, *, model="any", csv=None, future=None, **options) -> Answer:
        df, future = tables(forecasters(model).manifest.forecaster, data, future, csv, options)
        return python_answer(
            lambda: forecasters(model).forecast(df, horizon, future=future, **options)
        )

    return ask


@pytest.fixture(scope="module")
def client(forecasters, server):
    """Over gRPC: `foretell.client.Client(...).forecast(...)`."""

    def ask(data, horizon, *, model="any", csv=None, future=None, **options) -> Answer:
        df, future = tables(forecasters(model).manifest.forecaster, data, future, csv, options)
        with Client(server()) as connected:
            return python_answer(
                lambda: connected.forecast(df, horizon, model=model, future=future, **options)
            )

    return ask


def tables(spec, data, future, csv, options) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    columns = Columns(
        unique_id=options.get("id_col", "unique_id"),
        ds=options.get("time_col", "ds"),
        y=options.get("target_col", "y"),
        future_covariates=spec.future_covariates,
        past_covariates=spec.past_covariates,
        static=spec.static,
    )
    csv = CsvFormat(**csv or {})

    def read(table):
        return read_table(CASES / table, csv=csv, columns=columns) if is_path(table) else table

    return read(data), read(future)


def is_path(data: object) -> bool:
    return isinstance(data, str | Path)


def python_answer(call: Callable[[], pd.DataFrame]) -> Answer:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        try:
            table, refusals = call(), {}
        except RefusedSeriesError as error:
            table = error.forecast
            refusals = {refusal.unique_id: refusal.reason for refusal in error.refusals}
    return Answer(table, refusals, tuple(str(warning.message) for warning in caught))


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def foretell(capsys):
    """Run a command line; a traceback fails the test."""

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ended(code, captured.out, captured.err)

    return call


@pytest.fixture
def command(foretell, models, tmp_path):
    """By `foretell forecast`, into a Parquet file."""
    return command_door(
        foretell, tmp_path, lambda name: ["--model", models / name, "--device", "cpu"]
    )


@pytest.fixture
def remote_command(foretell, server, tmp_path):
    """By `foretell forecast --server`, into a Parquet file."""
    return command_door(foretell, tmp_path, lambda name: ["--server", server(), "--model", name])


def command_door(foretell, tmp_path: Path, model_arguments) -> Callable[..., Answer]:
    def ask(data, horizon, *, model="any", csv=None, future=None, **options) -> Answer:
        folder = Path(mkdtemp(dir=tmp_path))
        future_arguments = []
        if future is not None:
            future_arguments = ["--future", as_file(future, folder / "future.parquet")]
        # Small tables go in many chunks: they have to give what they give in one.
        chunks = ["--chunk-rows", 20] if is_path(data) or len(data) < _LARGE_ROWS else []
        data = as_file(data, folder / "data.parquet")
        inputs = set(folder.iterdir())
        output = folder / "out.parquet"
        ended = foretell(
            "forecast",
            data,
            *model_arguments(model),
            *("--horizon", horizon, "--output", output),
            *future_arguments,
            *chunks,
            *typed({**(csv or {}), **options}),
        )
        assert ended.out == "", "standard output belongs to the data"
        return command_answer(ended, output, set(folder.iterdir()) - inputs)

    return ask


def as_file(data: object, place: Path) -> Path:
    if is_path(data):
        return CASES / data
    data.to_parquet(place, index=False)
    return place


def typed(options: dict[str, object]) -> list[str]:
    """Options of the library as they are typed."""
    arguments = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif isinstance(value, list | tuple):
            arguments += [option, ",".join(map(str, value))]
        elif value is not None and value is not False:
            arguments += [option, str(value)]
    return arguments


def command_answer(ended: Ended, output: Path, new: set[Path]) -> Answer:
    side = output.with_name(f"{output.name}.refused.csv")
    if side not in new and ended.code in {1, 2}:
        assert new == set(), "what fails leaves nothing behind"
        assert ended.err.startswith(("error: ", "Usage: ")), ended.err
        message = ended.err.removeprefix("error: ").removesuffix("\n")
        raise (OptionError if ended.code == 2 else ForetellError)(message.split("\n"))
    refusals = {}
    if ended.code == 0:
        assert new == {output}
    else:
        written = pd.read_csv(side, dtype={"unique_id": str}, keep_default_na=False)
        assert written.columns.tolist() == ["position", "unique_id", "reason"]
        refusals = dict(zip(written["unique_id"], written["reason"], strict=True))
        assert ended.code == (3 if output in new else 1)
        assert new <= {output, side}
        assert f"{len(refusals)} of " in ended.err
        for unique_id in list(refusals)[:20]:
            assert f"  {unique_id}: " in ended.err
    table = pd.read_parquet(output) if output in new else NO_ROWS
    lines = ended.err.splitlines()
    told = tuple(line.removeprefix("warning: ") for line in lines if line.startswith("warning: "))
    return Answer(table, refusals, told)


@pytest.fixture(params=["library", "client", "command"])
def forecast(request):
    """The whole product, through one door after the other."""
    return request.getfixturevalue(request.param)
