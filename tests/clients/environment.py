"""Make the environments of other people's clients: `make clients`.

They bring their own versions of everything, and their own copy of the protocol. So they live in
environments of their own, and the tests run them as programs.
"""

import fcntl
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("tritonclient[grpc]==2.73.0", "kserve==0.21.0", "buf-bin==1.75.0")
FOLDER = Path(__file__).resolve().parents[2] / "build" / "clients"
NODE_PACKAGES = Path(__file__).parent / "node"
NODE_FOLDER = FOLDER.with_name("node-clients")
_NPM_S = 240


def make() -> Path:
    """Make it once; a change of the packages makes it anew.

    Returns:
        The folder of its programs.

    Raises:
        subprocess.CalledProcessError: pip can't install them; its `stderr` says why.
    """
    programs = FOLDER / "bin"
    stamp = FOLDER / "packages.txt"
    wanted = "\n".join(PACKAGES)
    with _alone(FOLDER):
        if not stamp.is_file() or stamp.read_text() != wanted:
            venv.create(FOLDER, with_pip=True, clear=True)
            subprocess.run(
                [
                    *(programs / "python", "-m", "pip", "install", "--quiet"),
                    *("--disable-pip-version-check", "--retries", "2", "--timeout", "20"),
                    *PACKAGES,
                ],
                check=True,
                capture_output=True,
                text=True,
            )
            stamp.write_text(wanted)
    return programs


def make_node() -> Path:
    """Make the environment of clients in Node, once; a change of the packages makes it anew.

    Returns:
        Where its modules are.

    Raises:
        OSError: There is no npm.
        subprocess.SubprocessError: npm can't install them; its `stderr`, if any, says why.
    """
    stamp = NODE_FOLDER / "installed.json"
    wanted = (NODE_PACKAGES / "package-lock.json").read_text()
    with _alone(NODE_FOLDER):
        if not stamp.is_file() or stamp.read_text() != wanted:
            NODE_FOLDER.mkdir(exist_ok=True)
            for file in ("package.json", "package-lock.json"):
                shutil.copy(NODE_PACKAGES / file, NODE_FOLDER)
            subprocess.run(
                [
                    *("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
                    *("--fetch-retries=1", "--fetch-timeout=20000"),
                ],
                cwd=NODE_FOLDER,
                check=True,
                capture_output=True,
                text=True,
                timeout=_NPM_S,
            )
            stamp.write_text(wanted)
    return NODE_FOLDER / "node_modules"


def reason_of(error: Exception) -> str:
    """Why an environment can't be made, in a line."""
    stderr = getattr(error, "stderr", None)  # bytes after a time-out, whatever was asked for
    lines = (stderr if isinstance(stderr, str) else str(error)).strip().splitlines()
    return (lines or ["it says nothing"])[-1][:200]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Work on a folder while no other process does: tests run side by side."""
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        make()
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.stderr) from error
    try:
        make_node()
    except (OSError, subprocess.SubprocessError) as error:  # not everybody has Node
        sys.stderr.write(f"no clients in Node, their tests skip: {reason_of(error)}\n")
