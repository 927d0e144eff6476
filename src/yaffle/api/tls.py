"""TLS in the server: a certificate and a key, read again when their files change.

The listener asks for the context of each new connection; those that are there keep what they began
with. A pair that makes no sense changes nothing: half of a renewal must not close the door at night.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.api.auth.secure_file import private_stamp
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from yaffle.config import ServerSettings
    from yaffle.ports import Clock

log = structlog.get_logger()

PACE_S: Final = 1.0
KEY: Final = "server.tls_key"


class Certificates:
    """The server's certificate, as its files last made sense."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        """Read the files; raise ConfigError naming the setting and what is wrong."""
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._stamp = self._look()
        self._context = self._load()
        self.fault = ""
        """Why the newest files are not in use; empty while they are."""

    def context(self) -> ssl.SSLContext:
        """Return what a new connection begins with."""
        return self._context

    async def keep(self, clock: Clock) -> None:
        """Look at the files every second, until cancelled."""
        while True:
            await clock.sleep(PACE_S)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Read the files again if one has changed; blocks."""
        try:
            stamp = self._look()
            if stamp == self._stamp and not self.fault:
                return
            context = self._load()
        except ConfigError as error:
            if str(error) != self.fault:
                log.error(  # noqa: TRY400 - the message says it all
                    "certificate refused, the old one stays in use", reason=str(error)
                )
            self.fault = str(error)
            return
        self._stamp, self._context, self.fault = stamp, context, ""
        log.info("certificate read again", certificate=str(self._certificate))

    def _look(self) -> tuple[object, ...]:
        """Return what tells one state of the files from another; ConfigError for a key of others."""
        stamps: list[object] = [private_stamp(self._key, KEY)]
        others = (
            ("server.tls_certificate", self._certificate),
            (
                "server.tls_client_ca",
                self._client_ca,
            ),
        )
        for setting, path in others:
            try:
                found = None if path is None else path.stat()
            except OSError as error:
                raise ConfigError(f"{setting} = {path}: {error.strerror}") from None
            stamps.append(found and (found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(stamps)

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without a password OpenSSL would ask for one at the terminal, and wait.
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"server.tls_certificate = {self._certificate}, tls_key = {self._key}: {_why(error)}"
            ) from None
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self._client_ca)
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"server.tls_client_ca = {self._client_ca}: {_why(error)}"
                ) from None
        return context


def read_certificates(server: ServerSettings) -> Certificates | None:
    """Return the certificates of the settings; None where the server speaks plain HTTP."""
    if server.tls_certificate is None or server.tls_key is None:
        return None
    return Certificates(server.tls_certificate, server.tls_key, server.tls_client_ca)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        reason = re.sub(r"^\[.*?\] | \(_?ssl.*\)$", "", reason.replace("( ssl", "(_ssl"))
        return {
            "key values mismatch": "the key is not that of the certificate",
            "pem lib": "no PEM, cut short, or a key with a password",
        }.get(reason, reason)
    return getattr(error, "strerror", None) or str(error)
