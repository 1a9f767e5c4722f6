"""Makes a checkout importable as `foretell`, where nothing is installed and little is there."""

import atexit
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLOORS = ("data", "model", "runtime", "export")
# What can't be done without, and what only making bundles needs.
NEEDED = ("numpy", "pandas", "torch", "onnx", "onnx_ir", "onnxruntime")
NEEDED_TO_EXPORT = ("onnxscript",)

# Names in annotations alone.
_JAXTYPING = """\
from typing import Any


class _Shape:
    def __class_getitem__(cls, item):
        return Any


def __getattr__(name):
    return _Shape
"""
# No check here reads text; what does is never called.
_SENTENCEPIECE = """\
class SentencePieceProcessor:
    def __init__(self, *_, **__):
        raise ImportError("sentencepiece is not installed")


SentencePieceTrainer = SentencePieceProcessor
"""
_STAND_INS = {"jaxtyping": _JAXTYPING, "sentencepiece": _SENTENCEPIECE}


def prepare(paths: Sequence[Path] = (), *, exports: bool = True) -> list[str]:
    """Put folders on the import path, and the checkout under its import name.

    Args:
        paths: Folders of unpacked wheels; they go before all others.
        exports: Bundles are to be made.

    Returns:
        What is missing; nothing where all is there.
    """
    sys.path[:0] = [str(path.absolute()) for path in paths]
    needed = (*NEEDED, *(NEEDED_TO_EXPORT if exports else ()))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    folder = Path(tempfile.mkdtemp(prefix="foretell-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    sys.path.append(str(folder))
    for name, text in _STAND_INS.items():
        if importlib.util.find_spec(name) is None:
            (folder / f"{name}.py").write_text(text)
    if importlib.util.find_spec("foretell") is None:
        (folder / "foretell").mkdir()
        for floor in FLOORS:
            (folder / "foretell" / floor).symlink_to(ROOT / floor, target_is_directory=True)
    importlib.invalidate_caches()
    return missing
