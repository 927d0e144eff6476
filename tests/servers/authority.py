"""A private certificate authority, made with the openssl program."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

NEW = (
    *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    *("-nodes", "-days", "2"),
)


@dataclass(frozen=True)
class Authority:
    """A certificate authority in a folder, with certificates by name."""

    folder: Path

    def issue(self, name: str, alt: str = "") -> tuple[Path, Path]:
        """Return a new certificate of `name` and its key."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        words = ["-subj", f"/CN={name}", "-out", str(cert), "-keyout", str(key)]
        if alt:
            words += ["-addext", f"subjectAltName={alt}"]
        openssl(*NEW, *words, "-CA", str(self.ca), "-CAkey", str(self.folder / "ca.key"))
        return cert, key

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"


def authority(folder: Path) -> Authority:
    """Return a new one."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl program")
    words = ("-subj", "/CN=hosts", "-out", folder / "ca.pem", "-keyout", folder / "ca.key")
    openssl(*NEW, *map(str, words))
    return Authority(folder)


def openssl(*words: str) -> None:
    """Run it; it has to succeed."""
    done = subprocess.run(
        ["openssl", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
