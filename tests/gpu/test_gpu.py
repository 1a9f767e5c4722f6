"""The checks of `run.py`, one test each, where there is a GPU."""

import sys
from pathlib import Path

import pytest

from foretell.runtime.devices import why_no_cuda

if (missing := why_no_cuda()) is not None:
    pytest.skip(f"no CUDA here: {missing}", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parent))
import checks
from machine import Machine, Skip
from models import make

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="session")
def machine(tmp_path_factory) -> Machine:
    folder = tmp_path_factory.mktemp("bundles")
    make(folder)
    return Machine("cuda", folder)


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_on_the_gpu(machine: Machine, check) -> None:
    try:
        check(machine)
    except Skip as reason:
        pytest.skip(str(reason))
