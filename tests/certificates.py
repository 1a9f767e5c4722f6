"""Authorities, and certificates that they sign, made with the openssl command."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Certificate:
    """PEM files of a certificate and its key."""

    cert: Path
    key: Path

    def copy_to(self, other: "Certificate") -> None:
        """Put it in another one's place, as a rotation does: by renaming."""
        for mine, place in ((self.key, other.key), (self.cert, other.cert)):
            fresh = place.with_suffix(".new")
            shutil.copy(mine, fresh)
            fresh.replace(place)


@dataclass(frozen=True)
class Authority(Certificate):
    """A certificate that signs others."""

    def sign(self, name: str) -> Certificate:
        """A new certificate for this machine's own names."""
        made = Certificate(self.cert.with_name(f"{name}.pem"), self.cert.with_name(f"{name}.key"))
        request, names = made.cert.with_suffix(".csr"), made.cert.with_suffix(".names")
        names.write_text(_NAMES)
        _openssl("req", *_CURVE, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}")
        _openssl(
            "x509", "-req", "-in", request, "-out", made.cert, "-days", "2", "-extfile", names,
            "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial",
        )  # fmt: skip
        return made


def make_authority(folder: Path, name: str = "authority") -> Authority:
    """A new authority that nobody knows."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command, which makes certificates, is not here")
    made = Authority(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        "req", "-x509", *_CURVE, "-keyout", made.key, "-out", made.cert, "-days", "2",
        "-subj", f"/CN={name}",
    )  # fmt: skip
    return made


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
