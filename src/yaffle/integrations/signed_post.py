"""A signed POST of one JSON document: settings, signature, and the meaning of the answer.

Every attempt carries the same id as `Idempotency-Key`; receivers check the signature with
`yaffle.integrations.signing.verify` and keep two secrets while a secret is being changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import (
    HttpSession,
    NoAnswer,
    address_rules,
    judge,
    one_line,
    read_ca_file,
    read_client_cert,
    read_url,
    to_json,
)
from yaffle.integrations.signing import is_signable, sign
from yaffle.model.operations import Delivery

if TYPE_CHECKING:
    from yaffle.ports.context import DriverContext

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostSettings:
    """Section `notifiers.NAME` or `alerts.NAME` of a receiver that is POSTed to."""

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    """From `secret_file`, `secret_env` or `secret`, at least 16 bytes; empty: nothing is signed."""
    headers: dict[str, str] = field(repr=False)
    timeout_s: float
    """`timeout`: of one attempt; the dispatcher's deadline may be shorter."""
    ca_file: Path | None
    client_cert: tuple[Path, Path] | None

    @classmethod
    def read(cls, section: Section, *, signed: bool = True) -> PostSettings:
        """Raise ConfigError for what is missing, wrong or unknown; `signed`: a secret is required."""
        settings = cls(
            url=read_url(section, "url"),
            secret=section.secret(required=signed),
            headers=section.headers(),
            timeout_s=section.number("timeout", 10, low=0.1, high=300),
            ca_file=read_ca_file(section),
            client_cert=read_client_cert(section),
        )
        section.finish()
        return settings


class SignedPost:
    """POSTs one document at a time; a dispatcher owns order, pace and number of attempts."""

    def __init__(self, context: DriverContext, section: str, *, signed: bool = True) -> None:
        """`section`: where the settings stand, for messages, unless the context says so."""
        where = Section(context.section or section, context.settings)
        self.settings = PostSettings.read(where, signed=signed)
        self._session = HttpSession(
            address_rules(context),
            ca_file=self.settings.ca_file,
            client_cert=self.settings.client_cert,
        )
        self._clock = context.clock

    async def send(
        self,
        ident: str,
        document: Mapping[str, object] | Sequence[object],
        *,
        content_type: str = JSON,
        deadline_s: float,
    ) -> tuple[Delivery, str]:
        """Send once; the id makes a repeat harmless for the receiver."""
        if not is_signable(ident):
            return Delivery.REFUSED, f"message id {one_line(ident, 40)!r} cannot be signed"
        try:
            body = to_json(document)
        except (TypeError, ValueError) as error:
            return Delivery.REFUSED, f"the message has no JSON form: {one_line(str(error))}"
        answer = await self._session.request(
            "POST",
            self.settings.url,
            headers=self._headers(ident, content_type, body),
            body=body,
            deadline_s=min(deadline_s, self.settings.timeout_s),
        )
        if isinstance(answer, NoAnswer):
            # A refused address too: it waits until the operator has put the name right.
            return Delivery.RETRY, answer.detail
        return judge(answer)

    def _headers(self, ident: str, content_type: str, body: bytes) -> dict[str, str]:
        ours = {"Content-Type": content_type, "Idempotency-Key": ident}
        if self.settings.secret:
            now_s = self._clock.now_us() // 1_000_000
            ours |= sign(self.settings.secret, message_id=ident, timestamp_s=now_s, body=body)
        return {**self.settings.headers, **ours}
