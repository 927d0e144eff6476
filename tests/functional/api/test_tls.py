"""TLS in the server: certificates made here and read again when they change, and `yaffle` over them."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError
from tests.functional.api.people import users_file
from tests.packaging.serving import Serving
from tests.waiting import wait_for

from yaffle.api.auth import read_identity
from yaffle.api.diagnostics.process import certificates
from yaffle.api.http.server import address_of, bind, serve
from yaffle.api.tls import Certificates, read_certificates
from yaffle.config import ServerSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError

WAIT_S = 60
NAME = "yaffle.example.org"
PEM = serialization.Encoding.PEM


class Authority:
    """Signs certificates, its own first."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._made(self.subject, self.key, NAME, authority=True))

    def issue(self, name: str, host: str = NAME) -> tuple[Path, Path]:
        """Write a certificate and its key, and return their files."""
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        plain = serialization.NoEncryption()
        pem = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain)
        private.touch(mode=0o600)
        private.write_bytes(pem)
        certificate.write_bytes(self._made(subject, key, host, authority=False))
        return certificate, private

    def _made(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, host: str, *, authority: bool
    ) -> bytes:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if authority:
            usage = x509.KeyUsage(
                **dict.fromkeys(
                    (
                        *("digital_signature", "content_commitment", "key_encipherment"),
                        *("data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
                    ),
                    False,
                ),
                key_cert_sign=True,
                crl_sign=True,
            )
            builder = builder.add_extension(usage, critical=True)
        else:
            names = x509.SubjectAlternativeName([x509.DNSName(host)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(PEM)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request with its scheme."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


@contextmanager
def serving(known: Certificates) -> Iterator[tuple[str, int]]:
    """Serve over TLS until the block ends; yield the address."""
    ready, box = Event(), dict[str, Any]()

    async def main() -> None:
        sock = bind("127.0.0.1:0")
        host, _, port = address_of(sock).rpartition(":")
        box.update(address=(host, int(port)), loop=asyncio.get_running_loop(), end=asyncio.Event())
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(serve(hello, sock, ServerSettings(), tls=known.context)),
                group.create_task(known.keep(SystemClock())),
            ]
            ready.set()
            await box["end"].wait()
            for task in tasks:
                task.cancel()

    thread = Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(WAIT_S)
    try:
        yield box["address"]
    finally:
        box["loop"].call_soon_threadsafe(box["end"].set)
        thread.join(WAIT_S)


def client(authority: Authority, **more: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.file))
    for name, value in more.items():
        setattr(context, name, value)
    return context


@contextmanager
def connected(address: tuple[str, int], context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(address, timeout=WAIT_S) as sock,
        context.wrap_socket(sock, server_hostname=NAME) as wrapped,
    ):
        yield wrapped


def answer(sock: ssl.SSLSocket) -> bytes:
    sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    found = b""
    while not found.endswith(b"0\r\n\r\n"):
        piece = sock.recv(65_536)
        assert piece
        found += piece
    return found


def shown(address: tuple[str, int], authority: Authority) -> bytes | None:
    """Return the certificate that the server shows to a new connection."""
    with connected(address, client(authority)) as sock:
        return sock.getpeercert(binary_form=True)


def der(file: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(file.read_text())


def test_a_changed_certificate_counts_for_new_connections(authority: Authority) -> None:
    pair = authority.issue("server")
    with (
        serving(Certificates(*pair, None)) as address,
        connected(address, client(authority)) as old,
    ):
        assert answer(old).startswith(b"HTTP/1.1 200 ")
        fresh = authority.issue("fresh")
        for new, now in zip(fresh, pair, strict=True):
            new.replace(now)
        # Who was there before goes on with what it began with, all the time.
        wait_for(
            lambda: b"https" in answer(old) and shown(address, authority) == der(pair[0]),
            within_s=WAIT_S,
        )
        assert b"https" in answer(old)


def test_a_broken_pair_keeps_the_old_one_and_says_so(authority: Authority) -> None:
    certificate, key = authority.issue("server")
    before = der(certificate)
    known = Certificates(certificate, key, None)
    settings = ServerSettings(tls_certificate=certificate, tls_key=key)
    [said] = certificates(settings)
    assert (said.name, said.status.value) == ("tls", "ok")
    with serving(known) as address:
        # The half of a renewal: the new certificate is there, its key is not.
        fresh, fresh_key = authority.issue("fresh")
        fresh.replace(certificate)
        wait_for(lambda: known.fault != "", within_s=WAIT_S)
        assert "the key is not that of the certificate" in known.fault
        assert shown(address, authority) == before
        [said] = certificates(settings)
        assert said.status.value == "warn"
        assert "the key is not that" in said.detail
        key.chmod(0o644)
        wait_for(lambda: "others may read" in known.fault, within_s=WAIT_S)
        key.unlink()
        wait_for(lambda: "No such file" in known.fault, within_s=WAIT_S)
        assert shown(address, authority) == before
        fresh_key.replace(key)
        wait_for(lambda: shown(address, authority) == der(certificate), within_s=WAIT_S)
        assert known.fault == ""
        assert der(certificate) != before


def test_old_protocols_are_refused(authority: Authority) -> None:
    with serving(Certificates(*authority.issue("server"), None)) as address:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with connected(address, client(authority, maximum_version=version)) as sock:
                assert answer(sock).startswith(b"HTTP/1.1 200 ")
        old = client(authority)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(OSError), connected(address, old):
            pass


def test_clients_need_a_certificate_of_the_authority(authority: Authority, tmp_path: Path) -> None:
    strangers = Authority(tmp_path, "strangers")
    known = Certificates(*authority.issue("server"), authority.file)
    with serving(known) as address:
        ours, theirs = client(authority), client(authority)
        ours.load_cert_chain(*authority.issue("mara"))
        theirs.load_cert_chain(*strangers.issue("eve"))
        with connected(address, ours) as sock:
            assert answer(sock).startswith(b"HTTP/1.1 200 ")
        for refused in (theirs, client(authority)):
            # With TLS 1.3 a client learns it only when it reads.
            with (
                pytest.raises((OSError, AssertionError)),
                connected(address, refused) as sock,
            ):
                answer(sock)


def test_what_cannot_be_used_is_refused_at_start(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    other, _ = authority.issue("other")
    junk = tmp_path / "junk.pem"
    junk.write_text("nothing")
    for pair, ca, said in (
        ((other, key), None, "the key is not that of the certificate"),
        ((tmp_path / "none", key), None, "No such file"),
        ((junk, key), None, "PEM"),
        ((certificate, key), junk, "tls_client_ca"),
    ):
        with pytest.raises(ConfigError, match=said):
            Certificates(*pair, ca)
    key.chmod(0o640 | 0o004)
    with pytest.raises(ConfigError, match=f"tls_key.*chmod 600 {key}"):
        Certificates(certificate, key, None)
    with pytest.raises(ValidationError, match="come together"):
        ServerSettings(tls_certificate=certificate)
    with pytest.raises(ValidationError, match="needs tls_certificate"):
        ServerSettings(tls_client_ca=certificate)
    assert read_certificates(ServerSettings()) is None


def test_passwords_cross_no_network_in_the_clear(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    users = users_file(tmp_path)

    def reads(**more: Any) -> None:
        read_identity(ServerSettings(users_file=users, **more), SystemClock())

    with pytest.raises(ConfigError, match=r"passwords of server\.users_file could be read"):
        reads(listen="0.0.0.0:8777")
    reads(listen="127.0.0.1:8777")
    reads(listen="0.0.0.0:8777", tls_by_proxy=True)
    reads(listen="0.0.0.0:8777", tls_certificate=certificate, tls_key=key)


@pytest.mark.slow
def test_commands_speak_to_it(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server", "localhost")
    env = {
        "YAFFLE_SERVER__TLS_CERTIFICATE": str(certificate),
        "YAFFLE_SERVER__TLS_KEY": str(key),
    }
    with Serving(tmp_path, env=env) as server:
        assert server.url.startswith("https://127.0.0.1:")
        # By its card: the very certificate, whatever its name.
        assert server.ok("cluster", "list")
        by_name = ("cluster", "list", "--server", server.url.replace("127.0.0.1", "localhost"))
        # By its name, which an authority has to vouch for.
        done = server.cli(*by_name)
        assert done.code == 5
        assert "YAFFLE_CA_FILE" in done.err
        server.env["YAFFLE_CA_FILE"] = str(authority.file)
        assert server.ok(*by_name)
        server.env["YAFFLE_CA_FILE"] = str(tmp_path / "none")
        done = server.cli(*by_name)
        assert done.code == 2
        assert "No such file" in done.err
