"""Make the environment of other people's clients: `make clients`.

They bring their own versions of everything, and their own copy of the protocol. So they live in an
environment of their own, and the tests run them as programs.
"""

import fcntl
import subprocess
import venv
from pathlib import Path

PACKAGES = ("tritonclient[grpc]==2.73.0", "kserve==0.21.0", "buf-bin==1.75.0")
FOLDER = Path(__file__).resolve().parents[2] / "build" / "clients"


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
    FOLDER.parent.mkdir(exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
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


if __name__ == "__main__":
    try:
        make()
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.stderr) from error
