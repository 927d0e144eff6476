"""Who may tell of failed hosts by signed messages: those who share a secret with us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.config.faults import Faults, quoted
from yaffle.errors import ConfigError, Forbidden
from yaffle.integrations.driver_settings import read_secret
from yaffle.integrations.signing import MIN_SECRET_BYTES, BadSignature, verify

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.config import Settings
    from yaffle.ports import Clock

SECTION: Final = "host_senders"


class HostSenders:
    """The secrets, by the name of who has them; read once, at start."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Raise ConfigError that names every file that cannot be used."""
        self._clock = clock
        faults = Faults()
        self._secrets: dict[str, tuple[bytes, ...]] = {}
        for name, one in settings.host_senders.items():
            files = {"secret_file": one.secret_file, "old_secret_file": one.old_secret_file}
            with faults.gather():
                self._secrets[name] = tuple(
                    _secret(file, f"{SECTION}.{quoted(name)}.{key}")
                    for key, file in files.items()
                    if file is not None
                )
        faults.settle()

    def sender_of(self, headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
        """Return whose secret has signed a message, and the id that was signed; raise Forbidden."""
        now_s = self._clock.now_us() / 1e6
        why = "nobody may tell of failed hosts here"
        for name, secrets in self._secrets.items():
            try:
                return name, verify(secrets, headers, body, now_s=now_s)
            except BadSignature as bad:
                why = str(bad)
        raise Forbidden(
            f"not signed by anybody who may tell of failed hosts: {why}",
            hint=f"an operator shares a secret with its sender: [{SECTION}.NAME] secret_file = FILE",
        )


def _secret(file: Path, place: str) -> bytes:
    secret = read_secret(file, place)
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigError(f"{place} = {file}: it must have at least {MIN_SECRET_BYTES} bytes")
    return secret
