"""Alerts that are POSTed: settings, signature, meaning of answers; drivers differ in the body.

The id of the failure is the same on every attempt, also as `Idempotency-Key`; with a secret each request
is signed as the webhook notifier's are (`yaffle.integrations.signing.verify`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import (
    HttpSession,
    NoAnswer,
    address_rules,
    judge,
    read_ca_file,
    read_client_cert,
    read_url,
    to_json,
)
from yaffle.integrations.signing import sign
from yaffle.model.operations import Delivery

if TYPE_CHECKING:
    from yaffle.model.host_failure import HostFailure
    from yaffle.ports.context import DriverContext


@dataclass(frozen=True, slots=True, kw_only=True)
class PostSettings:
    """Section `alerts.NAME` of an endpoint that is POSTed to."""

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    """From `secret_file`, `secret_env` or `secret`; empty: requests are not signed."""
    headers: dict[str, str] = field(repr=False)
    timeout_s: float
    """`timeout`: of one attempt; the alerter's deadline may be shorter."""
    ca_file: Path | None
    client_cert: tuple[Path, Path] | None
    """`client_cert` and `client_key`: how we prove to the endpoint who we are."""

    @classmethod
    def read(cls, section: Section) -> PostSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        settings = cls(
            url=read_url(section, "url"),
            secret=section.secret(required=False),
            headers=section.headers(),
            timeout_s=section.number("timeout", 10, low=0.1, high=300),
            ca_file=read_ca_file(section),
            client_cert=read_client_cert(section),
        )
        section.finish()
        return settings


class PostedAlerts:
    """POSTs one failure at a time; the alerter owns order, pace and number of attempts."""

    type: ClassVar[str]
    content_type: ClassVar[str] = "application/json"

    def __init__(self, context: DriverContext) -> None:
        section = Section(context.section or f"alerts.{self.type}", context.settings)
        self._settings = PostSettings.read(section)
        self._session = HttpSession(
            address_rules(context),
            ca_file=self._settings.ca_file,
            client_cert=self._settings.client_cert,
        )
        self._clock = context.clock

    def document(self, failure: HostFailure) -> dict[str, object]:
        """Return the body; the same at every attempt."""
        raise NotImplementedError

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Send once; the id makes a repeat harmless for the receiver."""
        body = to_json(self.document(failure))
        answer = await self._session.request(
            "POST",
            self._settings.url,
            headers=self._headers(failure.id, body),
            body=body,
            deadline_s=min(deadline_s, self._settings.timeout_s),
        )
        if isinstance(answer, NoAnswer):
            return Delivery.RETRY, answer.detail
        return judge(answer)

    def _headers(self, ident: str, body: bytes) -> dict[str, str]:
        ours = {"Content-Type": self.content_type, "Idempotency-Key": ident}
        if self._settings.secret:
            now_s = self._clock.now_us() // 1_000_000
            ours |= sign(self._settings.secret, message_id=ident, timestamp_s=now_s, body=body)
        return {**self._settings.headers, **ours}
