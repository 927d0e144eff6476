"""Sees hosts as a Pacemaker cluster does: its remote nodes, its members where wanted, and its fencings.

Asked are `crm_mon` and `cibadmin` of this machine, which have to be those of a member. Both can answer
with exit code 0 and say nothing: what is missing in their answers is unknown, never well.

Marks of failed hosts (seed 3) are permanent attributes of nodes, written by `fence_yaffle`; those that
`fence_compute` sets with attrd are read where `attrd_mark` names them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from yaffle.integrations.driver_settings import Section
from yaffle.integrations.fence_yaffle import ATTRIBUTE, SEVERAL
from yaffle.integrations.wake_socket import WakeSocket
from yaffle.ports.host_monitor import (
    HostFencing,
    HostMark,
    HostMonitor,
    HostReport,
    HostSighting,
    MonitorBlind,
    Seen,
    SupportsMarks,
    SupportsWakeUp,
    is_named,
)

if TYPE_CHECKING:
    from yaffle.ports.context import DriverContext

PROGRAMS: Final = Path("/usr/sbin")
LOOK: Final = ("crm_mon", "--one-shot", "--output-as=xml", "--include=all")
MEMBERSHIP: Final = ("cibadmin", "--query", "--xpath", "//node_state", "--no-children")
NODES: Final = ("cibadmin", "--query", "--scope", "nodes")
NO_ATTRIBUTE: Final = 78
"""The exit code of attrd_updater where nobody has set the attribute."""
MARKED: Final = "yes"
TAKEN: Final = "no"
"""What `fence_compute` sets, and what it waits for before the host may be switched on again."""
COMPLETED_S: Final = 300
"""A mark is written while its fencing goes on: that completes so much later at the most."""
AHEAD_S: Final = 86_400
"""Clocks are not so far apart: a mark that says so is no time."""
# Times without a zone are printed in that of the program.
ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"}
SKEW_S: Final = 5
"""What two clocks may be apart in one fencing."""
END_S: Final = 1.0
"""For a killed program to be gone."""
OFF: Final = frozenset({"off", "reboot"})
PERSON: Final = "a human"
"""Whom Pacemaker names where somebody has confirmed to it by hand that a host is off."""


class Unreadable(Exception):
    """Says why an answer is worth nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacemakerSettings:
    """Section `host_monitors.NAME` with `type = "pacemaker"`."""

    programs: Path
    """Where `crm_mon` and `cibadmin` lie; programs of yours may stand in for them."""
    hosts: tuple[str, ...]
    """Which nodes are hosts, by name; `*` and `?` stand for others."""
    members: bool
    """Whether full members of the cluster are hosts too, and not only remote nodes."""
    attrd_mark: str
    """The transient attribute by which another fence agent marks hosts (`fence_compute`: `evacuate`):
    its `yes` is taken over, and set to `no` when the failure is. Default: none."""

    wake: Path | None
    """A socket (its path) that is made for the alert agent `alert_yaffle`: the monitor is asked at once
    when that says that something has happened. Default: none."""

    @classmethod
    def read(cls, section: Section) -> PacemakerSettings:
        """Raise ConfigError for what is wrong or unknown."""
        programs = section.path("programs")
        settings = cls(
            programs=programs or PROGRAMS,
            hosts=section.patterns("hosts"),
            members=section.flag("members", default=False),
            attrd_mark=section.text("attrd_mark", ""),
            wake=section.path("wake"),
        )
        section.finish()
        return settings


class PacemakerMonitor:
    """Asks the cluster that this machine is a member of."""

    type: ClassVar[str] = "pacemaker"
    by_hand: ClassVar[str] = "`stonith_admin --fence {host}` on a member of the cluster; "

    def __init__(self, context: DriverContext) -> None:
        self._clock = context.clock
        section = Section(context.section or "host_monitors.pacemaker", context.settings)
        self._settings = PacemakerSettings.read(section)
        self._wake = None if self._settings.wake is None else WakeSocket(self._settings.wake)

    async def look(self, *, deadline_s: float) -> HostReport | MonitorBlind:
        """Return what the cluster says, or why that is worth nothing."""
        try:
            async with asyncio.timeout(max(deadline_s - END_S, 0.1)):
                # Not at once: membership is asked last, for whoever has left meanwhile is not up.
                status = await self._run(LOOK)
                nodes = await self._run(NODES)
                marks = await self._attrd_marks()
                members = await self._run(MEMBERSHIP)
            given = self._settings
            return read(
                status,
                members,
                hosts=given.hosts,
                members=given.members,
                marks=(*_marks(nodes, self._clock.now_us() // 1_000_000), *marks),
            )
        except TimeoutError:
            return MonitorBlind(why=f"Pacemaker did not answer within {deadline_s:g} s")
        except Unreadable as error:
            return MonitorBlind(why=str(error)[:500])

    async def changed(self) -> None:
        """Wait for a word of the alert agent; see `ports.SupportsWakeUp`."""
        if self._wake is None:
            await asyncio.Event().wait()
        else:
            await self._wake.word()

    async def clear(self, mark: HostMark, *, deadline_s: float) -> str:
        """Remove a mark that still says what it said; see `ports.SupportsMarks`."""
        if {"'", '"'}.intersection(mark.host + mark.value):
            return f"host {mark.host!r} or its mark {mark.value!r} has a quotation mark"
        try:
            async with asyncio.timeout(max(deadline_s - END_S, 0.1)):
                if mark.name == ATTRIBUTE:
                    # The CIB compares and removes in one act: a mark that is newer stays.
                    said = f"@name='{ATTRIBUTE}' and @value='{mark.value}'"
                    path = f"//nodes/node[@uname='{mark.host}']/instance_attributes/nvpair[{said}]"
                    await self._run(("cibadmin", "--delete", "--force", "--xpath", path))
                elif mark in await self._attrd_marks():
                    await self._run((*_ATTRD, mark.name, "--node", mark.host, "--update", TAKEN))
        except TimeoutError:
            return f"Pacemaker did not answer within {deadline_s:g} s"
        except Unreadable as error:
            return str(error)[:500]
        return ""

    async def _attrd_marks(self) -> Sequence[HostMark]:
        """Return the hosts that another fence agent has marked; attrd forgets them when they are back."""
        name = self._settings.attrd_mark
        if not name:
            return ()
        asked = (*_ATTRD, name, "--query", "--all", "--output-as=xml")
        said = _xml(await self._run(asked, fine=(0, NO_ATTRIBUTE)), _ATTRD[0])
        return [
            HostMark(host=str(one.get("host")), name=name, value=MARKED, timeless=True)
            for one in said.iterfind("attribute")
            if one.get("value") == MARKED
        ]

    async def _run(self, words: Sequence[str], fine: Sequence[int] = (0,)) -> str:
        program = self._settings.programs / words[0]
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *words[1:],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        except OSError as error:
            raise Unreadable(f"{program} cannot be run: {error.strerror}") from error
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(END_S):
                        await process.wait()
        if process.returncode not in fine:
            said = " ".join(err.decode(errors="replace").split())
            with contextlib.suppress(Unreadable):
                said = said or _said(_xml(out.decode(errors="replace"), words[0]))
            raise Unreadable(f"{words[0]} ended with {process.returncode}: {said or 'no word'}")
        return out.decode(errors="replace")


_ATTRD: Final = ("attrd_updater", "--name")


def read(
    status: str,
    membership: str,
    *,
    hosts: Sequence[str] = ("*",),
    members: bool = False,
    marks: Sequence[HostMark] = (),
) -> HostReport:
    """Return what the XML of `crm_mon` and of `cibadmin` says; raise Unreadable."""
    root = _xml(status, "crm_mon")
    joined = {s.get("uname"): s for s in _xml(membership, "cibadmin").iter("node_state")}
    _trustworthy(root)
    options = _one(root, "summary/cluster_options")
    resources = {str(r.get("id")): r for r in _one(root, "resources").iter("resource")}
    kinds = {"remote", "member"} if members else {"remote"}
    nodes = [
        node
        for node in _one(root, "nodes").iterfind("node")
        if node.get("type") in kinds and is_named(str(node.get("name")), hosts)
    ]
    busy = {
        event.get("target")
        for event in root.iterfind("fence_history/fence_event")
        if event.get("status") not in {"success", "failed"}
    }
    # Of a fencing that goes on it is not known yet when it is completed, or whether.
    told = [mark for mark in marks if mark.host not in busy]
    by_attrd = {mark.host for mark in told if mark.timeless}
    sightings = []
    for node in nodes:
        name = str(node.get("name"))
        resource = resources.get(name)
        if node.get("type") == "remote" and resource is None:
            # Its connection was taken out of the configuration: nobody looks at it any more.
            continue
        state = joined.get(name, _NOWHERE)
        sighting = _sighting(node, resource, options, state, marked=name in by_attrd)
        sightings.append(replace(sighting, busy=True) if name in busy else sighting)
    seen = {sighting.host: sighting for sighting in sightings}
    ours = [mark for mark in marks if mark.host in seen]
    names = {str(node.get("name")) for node in nodes}
    fencings = [f for f in _fencings(root) if f.host in names]
    for mark in ours:
        for at_s in mark.at_s if mark in told else ():
            _owe(fencings, seen[mark.host], at_s)
    for mark in ours:
        seen[mark.host] = _marked(seen[mark.host], mark)
    wild = sorted(f"{mark.host} ({mark.name}={mark.value!r})" for mark in ours if _is_wild(mark))
    return HostReport(
        sightings=tuple(seen.values()),
        fencings=tuple(fencings),
        marks=tuple(ours),
        fault=f"marked by nobody whom we know: {', '.join(wild)}"[:500] if wild else "",
    )


def _is_wild(mark: HostMark) -> bool:
    """Whether a mark says no time where it should: nobody takes such a failure over."""
    return not mark.at_s and not mark.timeless


def _marked(sighting: HostSighting, mark: HostMark) -> HostSighting:
    """Return the sighting of a host that is marked, with what that says of it."""
    if _is_wild(mark):
        why = f"{sighting.why}; its mark {mark.name}={mark.value!r} says no time and is left alone"
        return replace(sighting, why=why)
    return replace(sighting, why=f"{sighting.why}; marked as failed ({mark.name})")


def _owe(fencings: list[HostFencing], sighting: HostSighting, at_s: int) -> None:
    """Enter what a mark says: the fencing that it was written in, or one that nothing else shows."""

    def is_it(completed_s: int) -> bool:
        return at_s - SKEW_S <= completed_s <= at_s + COMPLETED_S

    for place, fencing in enumerate(fencings):
        if fencing.host == sighting.host and is_it(fencing.at_s):
            fencings[place] = replace(fencing, owed=True)
            return
    proof = "Pacemaker: marked by fence_yaffle, after the devices before it had switched it off"
    known = sighting.off_s is not None and is_it(sighting.off_s)
    fencings.append(
        HostFencing(
            host=sighting.host,
            at_s=sighting.off_s if known and sighting.off_s is not None else at_s,
            proof=proof,
            owed=True,
            within_s=0 if known else COMPLETED_S,
        )
    )


def _marks(nodes: str, now_s: int) -> Iterator[HostMark]:
    """Yield the marks of `fence_yaffle`; one that says no time is yielded without."""
    root = _xml(nodes, "cibadmin")
    if root.tag != "nodes":
        raise Unreadable(f"cibadmin says nothing of nodes: {_said(root) or root.tag}")
    for node in root.iter("node"):
        for pair in node.iterfind("instance_attributes/nvpair"):
            value = str(pair.get("value", ""))
            if pair.get("name") == ATTRIBUTE and value:
                words = value.split(SEVERAL)
                times = [int(w) for w in words if w.isascii() and w.isdecimal() and len(w) < 12]
                good = len(times) == len(words) and max(times) <= now_s + AHEAD_S
                at_s = tuple(times) if good else ()
                yield HostMark(host=str(node.get("uname")), name=ATTRIBUTE, value=value, at_s=at_s)


def _trustworthy(root: Element) -> None:
    """Raise Unreadable where the cluster has not got the word."""
    ended = root.find("status")
    if ended is None or ended.get("code") != "0":
        raise Unreadable(f"crm_mon: {_said(root) or 'its answer has no status'}")
    coordinator = root.find("summary/current_dc")
    if coordinator is None:
        raise Unreadable(f"crm_mon knows no cluster: {_said(root) or 'its answer has no summary'}")
    if coordinator.get("present") != "true":
        raise Unreadable("the cluster has no coordinator (DC) now")
    if coordinator.get("with_quorum") != "true":
        raise Unreadable(
            "this part of the cluster has no quorum: what it sees may be its own fault"
        )
    history = root.find("fence_history")
    if history is not None and history.get("status", "0") != "0":
        raise Unreadable(f"the fencer cannot be asked (status {history.get('status')})")


_NOWHERE: Final = Element("node_state")
"""The membership of a node of which the CIB says nothing."""


def _sighting(
    node: Element,
    connection: Element | None,
    options: Element,
    membership: Element,
    *,
    marked: bool,
) -> HostSighting:
    idle = connection is not None and connection.get("managed") == "false"
    role = "" if connection is None else f", its connection is {connection.get('role')}"
    said = f"Pacemaker: {'online' if _is(node, 'online') else 'offline'}{role}"
    joined, off, off_s = _joined(membership), _off(membership), _off_s(membership)
    if _is(node, "unclean"):
        # The cluster itself does not take it for off.
        off, off_s = False, None
    started = connection is None or connection.get("role") == "Started"
    seen = Seen.LOST
    if _is(node, "maintenance") or idle or _is(options, "maintenance-mode"):
        seen, said = Seen.MAINTENANCE, f"{said}, under maintenance"
    elif _is(node, "unclean"):
        said += ", unclean"
    elif _is(node, "online"):
        # Also a remote whose connection only begins is called online, for minutes.
        up = started and joined and not off and not _is(node, "pending")
        seen = Seen.UP if up else Seen.STARTING
    elif _stopped(connection, options):
        seen, said = Seen.STOPPED, f"{said}, stopped on purpose"
    if seen is Seen.LOST and options.get("stonith-enabled") == "false":
        said += "; fencing is switched off in the cluster (stonith-enabled=false)"
    if marked and seen is Seen.LOST and not _is(node, "unclean"):
        # Set when the host had been switched off, and Pacemaker forgets it when the host is back.
        off = True
    if off:
        said += ", fenced and not back"
    return HostSighting(host=str(node.get("name")), seen=seen, why=said, off=off, off_s=off_s)


def _stopped(connection: Element | None, options: Element) -> bool:
    """Whether a node that is offline and clean is so on purpose; a member that was not has no word."""
    if connection is None:
        return True
    return connection.get("target_role") == "Stopped" or _is(options, "stop-all-resources")


def _fencings(root: Element) -> Iterator[HostFencing]:
    """Yield the fencings that succeeded; raise Unreadable where one has no time that can be read."""
    for event in root.iterfind("fence_history/fence_event"):
        if event.get("status") != "success" or event.get("action") not in OFF:
            continue
        delegate, said = event.get("delegate", "?"), event.get("completed", "")
        who = "confirmed by a person" if delegate == PERSON else f"by {delegate}"
        yield HostFencing(
            host=str(event.get("target")),
            at_s=seconds(said),
            proof=f"Pacemaker: {event.get('action')} succeeded, {who}, for {event.get('client', '?')}"
            f" of {event.get('origin', '?')}, completed {said}",
        )


def seconds(text: str) -> int:
    """Return a time of crm_mon in seconds since the epoch; raise Unreadable."""
    spaced = re.sub(r"\s+([+-]\d\d:?\d\d|Z)$", r"\1", text.strip())
    try:
        moment = datetime.fromisoformat(spaced)
    except ValueError:
        try:
            moment = datetime.strptime(spaced, "%a %b %d %H:%M:%S %Y")  # noqa: DTZ007 - see TZ
        except ValueError:
            raise Unreadable(f"crm_mon: a fencing was completed at {text!r}: no time") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp())


def _joined(state: Element) -> bool:
    """Whether a node is a member; newer ones write since when instead of `true`."""
    nothing = {"false", "offline", "0", ""}
    return state.get("in_ccm", "") not in nothing and state.get("crmd", "online") not in nothing


def _off(state: Element) -> bool:
    """Whether a node has been fenced and has not come back since.

    Of a remote node the CIB says when it was, until it joins again. Of a member it says so only while
    that was the last thing that happened to it.
    """
    if state.get("remote_node") == "true":
        return _off_s(state) is not None
    return state.get("crm-debug-origin") == "send_stonith_update" and not _joined(state)


def _off_s(state: Element) -> int | None:
    """Return when a remote node was fenced that has not come back; raise Unreadable for no time."""
    said = state.get("node_fenced", "0")
    try:
        return int(said or "0") or None
    except ValueError:
        raise Unreadable(
            f"cibadmin: {state.get('uname')} was fenced at {said!r}: no time"
        ) from None


def _xml(text: str, program: str) -> Element:
    try:
        # The cluster's own word, and Expat bounds what entities may grow to.
        return ET.fromstring(text)  # noqa: S314
    except ET.ParseError as error:
        raise Unreadable(f"{program} answered with what is no XML: {error}") from None


def _one(root: Element, path: str) -> Element:
    found = root.find(path)
    if found is None:
        raise Unreadable(f"crm_mon says nothing of {path}: {_said(root) or 'no word why'}")
    return found


def _said(root: Element) -> str:
    return "; ".join(error.text or "" for error in root.iter("error"))


def _is(element: Element, name: str) -> bool:
    return element.get(name) == "true"


if TYPE_CHECKING:
    _conforms: type[HostMonitor] = PacemakerMonitor
    _keeps_marks: type[SupportsMarks] = PacemakerMonitor
    _wakes_up: type[SupportsWakeUp] = PacemakerMonitor
