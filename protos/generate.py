"""Generate the committed stubs from the .proto files: `make protos`.

Generated code refuses a protobuf or grpcio that is older than its generator. So the generator is
pinned to the oldest one that foretell supports, in an environment of its own, and the stubs run
with everything newer.

protoc puts all messages into protobuf's default pool. Those of `inference/` are moved to a pool of
their own (`inference/pool.py` says why), by the two lines of their code that name the pool.
"""

import shutil
import subprocess
import tempfile
import venv
from pathlib import Path

GENERATOR = ("grpcio-tools==1.74.0", "mypy-protobuf==3.6.0", "protobuf==6.31.1")
FOLDER = Path(__file__).resolve().parent
ENVIRONMENT = FOLDER.parent / "build" / "protos"
OWN_POOL = (
    (
        "from google.protobuf import descriptor_pool as _descriptor_pool\n",
        "from foretell.protos.inference.pool import POOL as _POOL\n",
    ),
    ("_descriptor_pool.Default()", "_POOL"),
)


def main() -> None:
    """Write the stubs of every .proto file beside it."""
    python = _generator()
    for package in ("v1", "inference"):
        sources = sorted((FOLDER / package).glob("*.proto"))
        with tempfile.TemporaryDirectory() as temporary:
            _generate(python, sources, Path(temporary))
            for old in (FOLDER / package).glob("*_pb2*"):
                old.unlink()
            for stub in sorted(Path(temporary).rglob("*_pb2*")):
                shutil.copy(stub, FOLDER / package)
    for stub in (FOLDER / "inference").glob("*_pb2.py"):
        _move_to_own_pool(stub)


def _move_to_own_pool(stub: Path) -> None:
    text = stub.read_text()
    for line, other in OWN_POOL:
        if text.count(line) != 1:
            raise SystemExit(f"{stub.name} has not one {line!r}; has protoc changed its code?")
        text = text.replace(line, other)
    stub.write_text(text)


def _generator() -> Path:
    """Make the generator's environment once; a change of the pins makes it anew."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "pins.txt"
    pins = "\n".join(GENERATOR)
    if not stamp.is_file() or stamp.read_text() != pins:
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *GENERATOR],
            check=True,
        )
        stamp.write_text(pins)
    return python


def _generate(python: Path, sources: list[Path], target: Path) -> None:
    # The virtual path makes the stubs import each other as foretell.protos..., without rewriting.
    subprocess.run(
        [
            python,
            *("-m", "grpc_tools.protoc"),
            f"-Iforetell/protos={FOLDER}",
            f"--plugin=protoc-gen-mypy_grpc={python.with_name('protoc-gen-mypy_grpc')}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpc_python_out={target}",
            f"--mypy_grpc_out=quiet:{target}",
            *(f"foretell/protos/{source.parent.name}/{source.name}" for source in sources),
        ],
        check=True,
    )
    for source in sources:  # a file without services has nothing to say in its gRPC stubs
        if "\nservice " not in source.read_text():
            for stub in target.rglob(f"{source.stem}_pb2_grpc.*"):
                stub.unlink()


if __name__ == "__main__":
    main()
