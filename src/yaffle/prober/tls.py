"""TLS contexts, one per verify mode and shared: building one costs more than a hundred handshakes."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import socket


class Contexts:
    """Built on first use; verification is against the system's authorities and `ca_file`."""

    def __init__(self, ca_file: str = "") -> None:
        self._ca_file = ca_file
        self._contexts: dict[bool, ssl.SSLContext] = {}

    def wrap(self, sock: socket.SocketType, host: str, *, verify: bool) -> ssl.SSLSocket:
        """Return `sock` as a TLS client that has not shaken hands yet; `host` is sent as SNI."""
        context = self._contexts.get(verify)
        if context is None:
            context = self._contexts[verify] = self._build(verify)
        # For TLS the sockets are made as `socket.socket`, see attempt.py.
        plain = cast("socket.socket", sock)
        return context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)

    def _build(self, verify: bool) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._ca_file:
            context.load_verify_locations(self._ca_file)
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def explain(error: ssl.SSLError) -> tuple[str, str]:
    """Return the row of a failed handshake and what OpenSSL said."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "L6-CERT", error.verify_message
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "L6-TLS", "the connection was closed during the TLS handshake"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return "L6-TLS", f"TLS: {reason}"
