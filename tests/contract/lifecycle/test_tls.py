"""A broker behind TLS with an authority of the operator's own; another authority is no broker."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.contract.lifecycle.stage import (
    OFF,
    Backend,
    power_off,
    sender,
    settled,
    source,
    until,
    watching,
)
from tests.servers import rabbitmq as rabbit
from tests.servers.rabbitmq import RabbitMQ

pytestmark = pytest.mark.slow


def openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def authority(folder: Path, name: str) -> Path:
    """Make an authority; return its certificate."""
    openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
        "-out", f"{name}.crt", "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip
    return folder / f"{name}.crt"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two authorities, and a server's certificate of the first."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    folder = tmp_path_factory.mktemp("pki")
    authority(folder, "ours")
    authority(folder, "theirs")
    openssl(
        folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-subj", "/CN=broker", "-keyout", "server.key", "-out", "server.csr",
    )  # fmt: skip
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    openssl(
        folder, "x509", "-req", "-in", "server.csr", "-CA", "ours.crt", "-CAkey", "ours.key",
        "-CAcreateserial", "-days", "2", "-extfile", "san", "-out", "server.crt",
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def broker(pki: Path) -> Iterator[RabbitMQ]:
    if rabbit.program() is None:
        pytest.skip("no RabbitMQ is installed (package rabbitmq-server)")
    server = RabbitMQ(tls=(pki / "ours.crt", pki / "server.crt", pki / "server.key"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


def test_the_own_authority_is_trusted(broker: RabbitMQ, pki: Path) -> None:
    async def main() -> None:
        backend = Backend()
        context = ssl.create_default_context(cafile=pki / "ours.crt")
        async with (
            sender(broker.url, ssl_context=context) as nova,
            watching(backend, source(broker, ca_file=str(pki / "ours.crt"))) as (lifecycle, seen),
        ):
            await settled(lifecycle)
            backend.states["s0"] = OFF
            await nova.send(power_off("s0"))
            await until(lambda: seen.heard(0), "it hears")

    asyncio.run(main())


@pytest.mark.parametrize("trusted", ["theirs.crt", ""], ids=["another", "the system's"])
def test_another_authority_is_not(broker: RabbitMQ, pki: Path, trusted: str) -> None:
    async def main() -> None:
        backend = Backend()
        more = {"ca_file": str(pki / trusted)} if trusted else {}
        with capture_logs() as logs:
            async with watching(backend, source(broker, **more), interval_s=0.5) as (lifecycle, _):
                await until(
                    lambda: [e for e in logs if e["event"] == "not listening"], "it is told"
                )
                assert not lifecycle.listening
                await until(lambda: backend.asked("s0") >= 3, "everything is asked for")
        assert "CERTIFICATE_VERIFY_FAILED" in str(logs)

    asyncio.run(main())


def test_who_says_so_need_not_verify(broker: RabbitMQ, pki: Path) -> None:
    async def main() -> None:
        backend = Backend()
        context = ssl.create_default_context(cafile=pki / "ours.crt")
        async with (
            sender(broker.url, ssl_context=context),
            watching(backend, source(broker, verify=False)) as (lifecycle, _),
        ):
            await settled(lifecycle)

    asyncio.run(main())
