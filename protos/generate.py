"""Generate the committed stubs from the .proto files: `make protos`.

Generated code refuses a protobuf or grpcio that is older than its generator. So the generator is
pinned to the oldest one that foretell supports, in an environment of its own, and the stubs run
with everything newer.
"""

import shutil
import subprocess
import tempfile
import venv
from pathlib import Path

GENERATOR = ("grpcio-tools==1.74.0", "mypy-protobuf==3.6.0", "protobuf==6.31.1")
FOLDER = Path(__file__).resolve().parent
ENVIRONMENT = FOLDER.parent / "build" / "protos"


def main() -> None:
    """Write the stubs of every .proto file of `v1/` beside it."""
    python = _generator()
    sources = sorted((FOLDER / "v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as temporary:
        _generate(python, sources, Path(temporary))
        for old in (FOLDER / "v1").glob("*_pb2*"):
            old.unlink()
        for stub in sorted(Path(temporary).rglob("*_pb2*")):
            shutil.copy(stub, FOLDER / "v1")


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
    # The virtual path makes the stubs import each other as foretell.protos.v1, without any
    # rewriting.
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
            *(f"foretell/protos/v1/{source.name}" for source in sources),
        ],
        check=True,
    )
    for source in sources:  # a file without services has nothing to say in its gRPC stubs
        if "\nservice " not in source.read_text():
            for stub in target.rglob(f"{source.stem}_pb2_grpc.*"):
                stub.unlink()


if __name__ == "__main__":
    main()
