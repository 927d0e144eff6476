"""NODE_STATUS_POLL_URL: fills in each node's URL and hands it to the prober (seed 1).

A node cannot choose where we connect: what is filled in is percent-encoded, so that a value is one
part of a host, path or query and never adds another; what then is no host name is refused by the
prober as X-BAD-URL. A URL whose value is missing keeps its placeholder, and the prober answers
X-UNEXPANDED for it, every round, without asking.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.errors import ConfigError, InvalidSpec, ProberUnavailable
from yaffle.integrations.driver_settings import Section
from yaffle.model.health import Observation
from yaffle.model.policy import ModeType
from yaffle.ports.detector import StreamingDetector, UrlResult, UrlTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.model.operations import Target
    from yaffle.model.policy import DetectionMode, UrlOptions
    from yaffle.ports.context import DriverContext
    from yaffle.ports.detector import Sink, UrlProber

_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
_AUTHORITY: Final = re.compile(r"(https?://)([^/?#]*)(.*)", re.DOTALL)


class UrlDetector:
    """Streams what the prober sees as observations; keeps nothing itself."""

    type: ClassVar[str] = ModeType.NODE_STATUS_POLL_URL.value

    def __init__(self, context: DriverContext) -> None:
        Section(f"drivers.{self.type}", context.settings).finish()
        if context.prober is None:
            raise ConfigError("the URL detector needs the prober, which is switched off")
        self._prober: UrlProber = context.prober
        self._clock = context.clock
        self._home = context.home

    def watch(
        self,
        watch_id: str,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        interval_s: float,
        sink: Sink,
    ) -> None:
        """See `ports.StreamingDetector`."""
        options = _options(mode)

        def pass_on(results: Sequence[UrlResult]) -> None:
            sink([observe(result, mode, options) for result in results])

        self._prober.schedule(
            watch_id,
            [_ask(self._near(target), options) for target in targets],
            options,
            interval_s=interval_s,
            sink=pass_on,
        )

    def unwatch(self, watch_id: str) -> None:
        """See `ports.StreamingDetector`."""
        self._prober.unschedule(watch_id)

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """See `ports.StreamingDetector`."""
        options = _options(mode)
        asks = [_ask(self._near(target), options) for target in targets]
        try:
            results = await self._prober.probe(asks, options, deadline_s=deadline_s)
        except ProberUnavailable as error:
            results = [self._not_asked(ask, str(error)) for ask in asks]
        return [observe(result, mode, options) for result in results]

    def _near(self, target: Target) -> Target:
        """Return the target; without its address where that means this machine to us, and is not.

        The loopback of another machine's node is nobody's, or a stranger's, here: left out, the
        address is a value that is missing, which says nothing of the node.
        """
        loopback = _is_loopback(_text(target.attributes.get("node_ip")))
        if self._home is None or not loopback or not self._home.foreign(target.attributes):
            return target
        known = {k: v for k, v in target.attributes.items() if k not in {"node_ip", "port"}}
        return replace(target, attributes=known)

    def _not_asked(self, ask: UrlTarget, why: str) -> UrlResult:
        return UrlResult(
            node_id=ask.node_id,
            code="X-PROBER",
            detail=why,
            at_us=self._clock.now_us(),
            took_us=0,
        )


def observe(result: UrlResult, mode: DetectionMode, options: UrlOptions) -> Observation:
    """Return what `result` means under the policy's options."""
    return Observation(
        node_id=result.node_id,
        mode=mode.key,
        outcome=judge(result.code, conn_error_as_unhealthy=options.conn_error_as_unhealthy),
        code=result.code,
        detail=result.detail,
        at_us=result.at_us,
        took_us=result.took_us,
        answered=OUTCOMES[result.code].answered,
    )


def expand(template: str, target: Target) -> str:
    """Fill in `template`; a placeholder without a value stays as it is.

    In the host an IPv6 address gets its brackets; everywhere else the value is percent-encoded.
    """
    values = {name: text for name, text in _values(target).items() if text}
    parts = _AUTHORITY.fullmatch(template)
    if parts is None:
        return _fill(template, values, in_host=False)
    scheme, authority, rest = parts.groups()
    return scheme + _fill(authority, values, in_host=True) + _fill(rest, values, in_host=False)


def _values(target: Target) -> dict[str, str]:
    attributes = target.attributes
    return {
        "nodename": target.name,
        "node_id": target.node_id,
        "physical_id": target.physical_id,
        "cluster_name": target.cluster_name,
        "node_ip": _text(attributes.get("node_ip")),
        "port": _text(attributes.get("port")),
    }


def _text(value: object) -> str:
    """Attributes come from backends: text and whole numbers count, everything else is missing."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _fill(template: str, values: dict[str, str], *, in_host: bool) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if value is None:
            return match[0]
        bracketed = template[: match.start()].endswith("[")
        if in_host and match[1] == "node_ip" and _is_ipv6(value):
            return value if bracketed else f"[{value}]"
        return quote(value, safe="")

    return _PLACEHOLDER.sub(value_of, template)


def _is_ipv6(value: str) -> bool:
    try:
        return ipaddress.ip_address(value).version == 6 and "%" not in value
    except ValueError:
        return False


def _is_loopback(value: str) -> bool:
    try:
        return ipaddress.ip_address(value).is_loopback
    except ValueError:
        return value == "localhost"


def _ask(target: Target, options: UrlOptions) -> UrlTarget:
    return UrlTarget(node_id=target.node_id, url=expand(options.poll_url, target))


def _options(mode: DetectionMode) -> UrlOptions:
    if mode.url is None:
        raise InvalidSpec(f"the mode {mode.key} has no poll_url")
    return mode.url


if TYPE_CHECKING:
    _conforms: type[StreamingDetector] = UrlDetector
