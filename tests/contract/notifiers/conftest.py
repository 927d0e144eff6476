"""A throw-away certificate for `localhost`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Self-signed, for the name localhost only; returns (certificate, key)."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl program")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    what = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -out {cert}"
    whose = f"-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {key}"
    subprocess.run(
        [openssl, *what.split(), *whose.split()], check=True, capture_output=True, timeout=60
    )
    return cert, key
