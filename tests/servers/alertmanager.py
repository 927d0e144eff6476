"""A private, real Prometheus Alertmanager that tells nobody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.servers.process import Process

PROGRAM = "prometheus-alertmanager"
CONFIG = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


class Alertmanager(Process):
    """`url` is where alerts are posted to."""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.root}/api/v2/alerts"

    def command(self) -> Sequence[str]:
        config = self.folder / "alertmanager.yml"
        config.write_text(CONFIG)
        return (
            PROGRAM,
            f"--config.file={config}",
            f"--storage.path={self.folder}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        )

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.root}/-/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def firing(self) -> list[dict[str, Any]]:
        """Return the alerts that it shows."""
        found: list[dict[str, Any]] = httpx.get(self.url).raise_for_status().json()
        return found


@contextmanager
def alertmanager() -> Iterator[Alertmanager]:
    """Run one until the block ends."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"no {PROGRAM} (package prometheus-alertmanager)")
    server = Alertmanager()
    try:
        server.start()
        yield server
    finally:
        server.remove()
