"""What a crash leaves in the log: where it happened, and no secret that was at hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import logging, structlog
from yaffle.cli.serve import logs
logs.configure("info", {style!r})
def sign_in(password):
    raise RuntimeError("broken")
try:
    sign_in("correct " + "horse")
except RuntimeError:
    structlog.get_logger().exception("request failed")
    logging.getLogger("library").exception("failed")
"""


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_traceback_shows_no_local_variables(style: str) -> None:
    code = CODE.format(style=style)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("RuntimeError: broken") == 2
    assert "in sign_in" in done.stderr
    assert "correct horse" not in done.stderr
