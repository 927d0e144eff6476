"""HOST fencing: switch off the machine under a node, and believe only what its power device says then.

    which host? ─▶ fenced by its own cluster, and not back? ─▶ confirmed
        │no
        ▼
    may it be fenced? ─▶ status ─off─▶ confirmed, unless the host is heard of
                            │on
                            ▼
                           off ─▶ status until it says off ─▶ confirmed, else unknown

Fencing a host kills every guest on it. So it is refused while the backend says that the host is up,
and nothing is done while it cannot tell, unless the operator says `even_while_up` of the device.
Nothing here ever switches a host on or reboots it, and the exit code of `off` proves nothing.

Several nodes of one host that are fenced at once share one run and its answer. An engine that takes
over simply asks again: what is off already is confirmed by `status` alone.
"""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from yaffle.core.planning.host_attribution import BY_CLOUD
from yaffle.drivers.fencers.host.agent import (
    Power,
    lines,
    misunderstood,
    power_of,
)
from yaffle.drivers.fencers.host.clusters import Clusters, FencedElsewhere
from yaffle.drivers.fencers.host.settings import Device, HostSettings
from yaffle.errors import ConfigError, DependencyError
from yaffle.integrations.bounded_program import Ran, run_program
from yaffle.integrations.driver_settings import Section
from yaffle.model.ids import OperationId
from yaffle.model.operations import (
    FenceResult,
    FenceVerdict,
    HostReading,
    PoweredOff,
    Promise,
    Proof,
    Target,
)
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import SupportsHostStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from yaffle.ports.fencer import (
        Fencer,
        NeedsSettings,
        SupportsDeviceCheck,
        SupportsHostFence,
    )

log = structlog.get_logger()

NAMING: Final = ("plug", "ip", "ipport", "systems_uri")
"""The agents' options by which they know a host; evidence names them."""
ADDRESS: Final = ("ip", "ipport", "systems_uri")
"""Those of them that name the device itself."""
AT_ONCE: Final = 16
"""Hosts that are being fenced at once; more wait, within their own deadline."""
_MARGIN: Final = 0.15
_MARGIN_MAX_S: Final = 0.5
"""Share of the deadline, and its most, that is kept for killing an agent that did not end."""
_STATUS_SHARE: Final = 0.35
"""Share of the deadline that `off` leaves for the `status` after it."""
_STATUS_MAX_S: Final = 5.0
_STATUS_LEAST_S: Final = 0.2
_ASK_LEAST_S: Final = 1.0
"""With less time left no device is asked how it is: an agent that is killed may leave it a session."""
WORD_S: Final = 900.0
"""So long counts the word that a host is off of which nobody can tell whether it has been back."""
QUIET_S: Final = 15.0
"""Longer than the pause between two reports of a host: Nova's report every 10 s."""
_PAUSE_S: Final = 0.2
_PAUSE_MAX_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A host and the device that switches it."""

    host: str
    device: Device
    reported: str = ""
    """When the host reported last, before it was asked to be switched off."""
    heard: bool = False
    """The backend does not say by itself that it hears nothing of the host: it is up, or somebody has
    called it down."""

    @property
    def words(self) -> str:
        """Return for evidence and logs which device was asked, and of which plug."""
        options = {**self.device.options, **self.device.hosts[self.host]}
        named = [f"{key} {options[key]}" for key in NAMING if options.get(key)]
        return ", ".join([f"device {self.device.name}", f"host {self.host}", *named])


class HostFencer:
    """Any program of fence-agents; confirmed only by a `status` that says off."""

    type: ClassVar[str] = "HOST"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.CONFIRMS_POWER})

    def __init__(self, context: DriverContext) -> None:
        self._clock = context.clock
        self._profiles = context.profiles
        self._clusters = Clusters(context)
        self._by_host = HostSettings.read(Section("drivers.HOST", context.settings)).by_host()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._asking = asyncio.Lock()
        self._reports: dict[str, tuple[str, float]] = {}
        """Of each host its last report, and since when we know of it, monotonic."""
        self._seen_on: set[str] = set()
        """Hosts of which a switch has said on: it can tell that from off."""
        self._flights: dict[str, asyncio.Future[FenceResult | None]] = {}
        """Hosts that are being fenced now; None is for those who come after a run that was given up."""

    def supports(self, target: Target) -> bool:
        """Whether there are devices, and a way to tell on which host the node is."""
        if isinstance(self._profiles.get(target.profile_type), SupportsHostStatus):
            return bool(self._by_host or self._clusters)
        return target.attributes.get("host") in self._by_host

    def lacking(self) -> str:
        """Say what keeps every fence from being done."""
        return (
            ""
            if self._by_host or self._clusters
            else "has no devices here: the operator sets drivers.HOST.devices"
        )

    async def fence(
        self, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> FenceResult:
        """Switch the node's host off and read back that it is; see above for when it is refused."""
        margin_s = min(deadline_s * _MARGIN, _MARGIN_MAX_S)
        until_s = self._clock.monotonic_s() + deadline_s - margin_s
        try:
            async with asyncio.timeout(deadline_s):
                place = await self._place(target, until_s)
                if isinstance(place, FenceResult):
                    return place
                return await self._shared(place, until_s)
        except TimeoutError:
            return _unknown(f"not proved within {deadline_s:g} s")

    def device_of(self, host: str) -> str:
        """Return the device of a host by its address: several of one address are asked one by one."""
        device = self._by_host.get(host)
        if device is None:
            return ""
        options = {**device.options, **device.hosts[host]}
        named = [options[key] for key in ADDRESS if options.get(key)]
        return " ".join([device.agent.name, *named] if named else [device.name])

    async def fence_host(self, host: str, *, deadline_s: float) -> FenceResult:
        """Switch a host off and read back that it is; its monitor has heard nothing of it for long."""
        margin_s = min(deadline_s * _MARGIN, _MARGIN_MAX_S)
        until_s = self._clock.monotonic_s() + deadline_s - margin_s
        place = self._switched(host)
        if isinstance(place, FenceResult):
            return place
        try:
            async with asyncio.timeout(deadline_s):
                return await self._shared(place, until_s)
        except TimeoutError:
            return _unknown(f"not proved within {deadline_s:g} s")

    async def device_faults(
        self, *, leave: Collection[str], deadline_s: float
    ) -> Mapping[str, str | None]:
        """As `SupportsDeviceCheck`: one host of a device after the other, several devices at once."""
        by_device: dict[str, list[str]] = {}
        for host in sorted(self._by_host):
            by_device.setdefault(self.device_of(host), []).append(host)
        said: dict[str, str | None] = dict.fromkeys(self._by_host)
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(device: str, hosts: Sequence[str], until_s: float) -> None:
            async with turns:
                for host in hosts:
                    used = {self.device_of(one) for one in (*leave, *self._flights)}
                    left_s = until_s - self._clock.monotonic_s()
                    if device in used or left_s < _ASK_LEAST_S:
                        return
                    said[host] = await self._fault(host, left_s)

        # Who asks at the same time waits: two questions at once make some devices fail.
        async with self._asking:
            until_s = self._clock.monotonic_s() + deadline_s
            await asyncio.gather(*(ask(*one, until_s) for one in by_device.items()))
        return said

    async def _fault(self, host: str, within_s: float) -> str:
        place = Place(host=host, device=self._by_host[host])
        try:
            secrets = place.device.secrets()
        except ConfigError as error:
            return str(error)
        told = await _Agent(place, secrets).run("status", within_s)
        if misunderstood(told):
            # Agents repeat the whole line, and what is mistyped may be a secret.
            return f"{place.words}: the agent does not know one of its options"
        return "" if power_of(told) is not Power.UNKNOWN else f"{place.words}: {told.detail}"

    # --- which host, and may it be fenced? ---

    async def _place(self, target: Target, until_s: float) -> Place | FenceResult:
        profile: object = self._profiles.get(target.profile_type)
        if not isinstance(profile, SupportsHostStatus):
            # Nobody moves such a node behind our back: what was noted of it holds.
            return self._place_of_noted(target.attributes.get("host"))
        try:
            # Asked anew: a stored host is where the node once was, and others' guests would die.
            readings = await profile.hosts([target], deadline_s=self._left_s(until_s) / 2)
        except (OSError, DependencyError) as error:
            return _unknown(f"on which host the node is could not be asked: {error}")
        if len(readings) != 1:
            return _unknown(f"{target.profile_type} gave {len(readings)} answers for one node")
        (reading,) = readings
        said = (
            ""
            if not reading.name
            else await self._clusters.fenced(
                reading.name,
                str(target.attributes.get(BY_CLOUD) or ""),
                within_s=self._left_s(until_s) / 2,
            )
        )
        if not isinstance(said, str):
            result = self._fenced_elsewhere(reading, said)
            if result.verdict is FenceVerdict.CONFIRMED or not said.word:
                return result
            # A word that does not hold keeps nobody from asking the switch.
            place = self._place_of_reading(reading)
            if isinstance(place, FenceResult):
                return replace(result, detail=f"{result.detail}; {place.detail}")
            return place
        place = self._place_of_reading(reading)
        if said and isinstance(place, FenceResult):
            return replace(place, detail=f"{place.detail}; {said}")
        return place

    def _fenced_elsewhere(self, reading: HostReading, fenced: FencedElsewhere) -> FenceResult:
        """Return what another's fencing is worth: a host that was rebooted may run guests again.

        Those are started by the backend's own agent there, which reports then.
        """
        self._note(reading)
        why, evidence = "", fenced.proof.evidence
        if reading.up is not False:
            why = f"the backend does not miss host {reading.name}: {reading.detail or 'it is up'}"
        elif fenced.word:
            why = self._heard_since(reading, fenced.since_s)
        elif reading.forced_down:
            why = self._reports_on(reading.name, reading.reported)
        if why:
            return _unknown(f"not proved off yet: {evidence}; but {why}")
        off = PoweredOff(
            host=reading.name,
            reported=reading.reported,
            since_s=fenced.since_s,
            word=fenced.word,
        )
        return FenceResult(
            verdict=FenceVerdict.CONFIRMED, detail=evidence, proof=fenced.proof, off=off
        )

    def _heard_since(self, reading: HostReading, since_s: int | None) -> str:
        """Say that a host may have been back since somebody said that it is off; empty where it was not.

        It reports as soon as it is. Where somebody has called it down its last report cannot be told
        from that; so a word counts for a short time then, in which it is watched.
        """
        age_s = self._clock.now_us() / 1e6 - (since_s or 0)
        if reading.forced_down:
            if age_s > WORD_S:
                return (
                    f"that is {age_s:.0f} s old, and host {reading.name} is called down: whether it has"
                    " been back meanwhile cannot be told"
                )
            return self._reports_on(reading.name, reading.reported)
        heard_s = _seconds_of(reading.reported)
        if heard_s is None:
            return f"the backend does not say when it heard of host {reading.name} last"
        if since_s is None or heard_s > since_s:
            return f"host {reading.name} has reported since, at {reading.reported}"
        return ""

    def _note(self, reading: HostReading) -> None:
        """Remember since when a host's last report is known."""
        if self._reports.get(reading.name, ("", 0.0))[0] != reading.reported:
            self._reports[reading.name] = reading.reported, self._clock.monotonic_s()

    def _place_of_noted(self, host: object) -> Place | FenceResult:
        if not isinstance(host, str) or not host:
            return _refused("it is not known on which host the node is: nothing was done")
        place = self._switched(host)
        if isinstance(place, FenceResult) or place.device.even_while_up:
            return place
        return _refused(
            f"nothing here can say whether host {host} is down; even_while_up = true for device"
            f" {place.device.name} would fence it without asking"
        )

    def _place_of_reading(self, reading: HostReading) -> Place | FenceResult:
        host = reading.name
        if not host and reading.up is None:
            return _unknown(f"on which host the node is could not be told: {reading.detail}")
        if not host:
            return _refused(f"it is not known on which host the node is: {reading.detail}")
        place = self._switched(host)
        if isinstance(place, FenceResult):
            return place
        self._note(reading)
        if place.device.even_while_up or reading.up is False:
            heard = bool(reading.up) or reading.forced_down
            return replace(place, reported=reading.reported, heard=heard)
        if reading.up:
            return _refused(f"host {host} is up: fencing it would kill every guest on it")
        return _unknown(f"the backend cannot tell whether host {host} is down: {reading.detail}")

    def _switched(self, host: str) -> Place | FenceResult:
        device = self._by_host.get(host)
        if device is None:
            return _refused(f"no device in drivers.HOST.devices switches host {host}")
        if _is_here(host):
            return _refused(f"this engine runs on host {host}: another one has to fence it")
        return Place(host=host, device=device)

    # --- one run for all who ask ---

    async def _shared(self, place: Place, until_s: float) -> FenceResult:
        """Fence the host, or wait for the run that does so already."""
        while True:
            flight = self._flights.get(place.host)
            if flight is None:
                return await self._lead(place, until_s)
            result = await asyncio.shield(flight)
            if result is not None:
                return result

    async def _lead(self, place: Place, until_s: float) -> FenceResult:
        flight: asyncio.Future[FenceResult | None]
        flight = self._flights[place.host] = asyncio.get_running_loop().create_future()
        result: FenceResult | None = None
        try:
            async with self._turns:
                result = await self._fence(place, until_s)
            return result
        finally:
            del self._flights[place.host]
            flight.set_result(result)

    # --- the run itself ---

    async def _fence(self, place: Place, until_s: float) -> FenceResult:
        try:
            secrets = place.device.secrets()
        except ConfigError as error:
            return _unknown(f"nothing was done: {error}")
        result = await self._switch_off(_Agent(place, secrets), place, until_s)
        log.info(
            "host fence tried",
            host=place.host,
            device=place.device.name,
            agent=place.device.agent.name,
            verdict=result.verdict.value,
            detail=result.detail,
        )
        return result

    def _doubt(self, place: Place) -> str:
        """Say why a host may be on whatever its switch says; empty where nobody hears of it.

        A switch that says off of whatever it is asked is found out by a host that goes on reporting.
        """
        if not place.heard or place.host in self._seen_on:
            return ""
        return self._reports_on(place.host, place.reported)

    def _reports_on(self, host: str, reported: str) -> str:
        """Say that a host may be reporting; empty where it has not for long."""
        if not reported:
            return f"the backend hears of host {host}, and does not say when it did last"
        if self._clock.monotonic_s() - self._reports[host][1] >= QUIET_S:
            return ""
        return f"host {host} reported at {reported}: it is watched whether it does again"

    async def _switch_off(self, agent: _Agent, place: Place, until_s: float) -> FenceResult:
        first = await agent.run("status", self._left_s(until_s))
        if misunderstood(first):
            return _refused(f"nothing was done: the agent knows an option not: {first.detail}")
        match power_of(first):
            case Power.OFF if doubt := self._doubt(place):
                return _unknown(f"not proved off: {agent.words}: status says off, but {doubt}")
            case Power.OFF:
                return self._confirmed(agent, "status", "already off")
            case Power.UNKNOWN:
                # What cannot be read back cannot be proved: guests would die for nothing.
                return _unknown(f"nothing was done: {agent.words}: status: {first.detail}")
            case Power.ON:
                self._seen_on.add(place.host)
        reserve_s = min(_STATUS_MAX_S, self._left_s(until_s) * _STATUS_SHARE)
        done = await agent.run("off", self._left_s(until_s - reserve_s))
        return await self._read_back(agent, done, until_s)

    async def _read_back(self, agent: _Agent, done: Ran, until_s: float) -> FenceResult:
        """Ask until it is off; a device may say "ok" long before, or instead."""
        pause_s, told = _PAUSE_S, ""
        while True:
            seen = await agent.run("status", self._left_s(until_s))
            power = power_of(seen)
            if power is Power.OFF:
                return self._confirmed(agent, "off+status", f"off: {done.detail}")
            # What was said last tells more than that there was no time to ask again.
            told = seen.detail if power is Power.ON or not told else told
            if self._left_s(until_s) <= pause_s + _STATUS_LEAST_S:
                said = f"off: {done.detail}; status: {told}"
                return _unknown(f"not proved off: {agent.words}: {said}")
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)

    def _confirmed(self, agent: _Agent, how: str, what: str) -> FenceResult:
        at_us = self._clock.now_us()
        when = datetime.fromtimestamp(at_us // 1_000_000, UTC).isoformat()
        evidence = f"{agent.words}: {what}; status said off at {when}"
        proof = Proof(
            method=f"{agent.name} {how}",
            evidence=evidence,
            at_us=at_us,
            by=f"{socket.gethostname()}/{os.getpid()}",
        )
        return FenceResult(
            verdict=FenceVerdict.CONFIRMED, detail=evidence, proof=proof, off=agent.off
        )

    def _left_s(self, until_s: float) -> float:
        return max(0.05, until_s - self._clock.monotonic_s())


class _Agent:
    """A device's agent with the options of one host."""

    def __init__(self, place: Place, secrets: dict[str, str]) -> None:
        device = place.device
        self.name = device.agent.name
        self.words = place.words
        self.off = PoweredOff(host=place.host, reported=place.reported)
        self._path = device.agent
        self._timeout_s = device.timeout_s
        self._options = {**device.options, **device.hosts[place.host]}
        self._secrets = secrets

    async def run(self, action: str, within_s: float) -> Ran:
        """Run it once with `action`; only `status` and `off` are ever asked."""
        return await run_program(
            self._path,
            lines(action, self._options, self._secrets),
            self._secrets.values(),
            within_s=min(within_s, self._timeout_s),
        )


def _is_here(host: str) -> bool:
    """Whether `host` is this very machine, with or without its domain."""
    own = socket.gethostname()
    return host == own or host.startswith(f"{own}.") or own.startswith(f"{host}.")


def _seconds_of(reported: str) -> float | None:
    """Return when a host reported last (seconds since the epoch); None where its backend says no time."""
    try:
        found = datetime.fromisoformat(reported)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _refused(detail: str) -> FenceResult:
    return FenceResult(verdict=FenceVerdict.REFUSED, detail=detail)


def _unknown(detail: str) -> FenceResult:
    return FenceResult(verdict=FenceVerdict.UNKNOWN, detail=detail)


if TYPE_CHECKING:
    _conforms: type[Fencer] = HostFencer
    _tells: type[NeedsSettings] = HostFencer
    _fences_hosts: type[SupportsHostFence] = HostFencer
    _checks: type[SupportsDeviceCheck] = HostFencer
