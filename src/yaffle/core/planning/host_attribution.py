"""Attributes failures to a node or to its host, from how the other nodes on that host are.

Fifteen nodes that fail together on one machine look like fifteen small failures, each of which may
be healed. They are one. What the backend says of the machine and how many of its nodes fail as one
that is lost would make them fail decide together, in one table:

    the backend says   few of its nodes fail so   the most of them do    some are left of such
    up                 the node                   unclear: held          the node
    lost               unclear: held              the host               the host
    nothing            the node                   unclear: held          unclear: held

A node fails *as its host would make it* where nothing answers, or where the backend says that the
machine is lost. An answer of any other kind ("it is switched off", a refused connection) is proof
that somebody is there to give it: then it is the node's own failure, however many share it.

Where the backend has lost the machine, what it says of the nodes there is what it knew before: it
repeats "running" of all of them. So these are few only where at least as many others answered for
themselves, and then the backend's word is in doubt: a fence would end them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from yaffle.core.health.check_codes import OF_HOST
from yaffle.core.health.diagnosis import failing
from yaffle.model.health import Health

if TYPE_CHECKING:
    from yaffle.core.health.verdict import NodeMemory
    from yaffle.model.policy import RecoveryAction

TOGETHER_US: Final = 300_000_000
"""Failures that began within so long are counted as one event: clusters are asked at their own pace."""
MIN_NODES: Final = 2
REPEATED: Final = ("ST-", "EV-", OF_HOST)
"""Codes of what the backend knows of a node begin so: it says that of a lost machine's nodes, too."""
AS_ONE_MAX: Final = 8
"""Lost hosts of a cluster that may count as one failure each; more of them are a site's failure."""
EVACUATE: Final = "EVACUATE"
BY_HOST: Final = "host"
"""The attribute of a node that names its host; a policy may limit by it, too (`limits.domain`)."""

BY_CLOUD: Final = "cloud"
"""The attribute of a node that names the cloud of its host, where its profile knows several."""


class Word(StrEnum):
    """The backend's report on a host."""

    UP = "up"
    LOST = "lost"
    NOTHING = "nothing"
    """It was not asked, cannot be, or could not tell."""


class Share(StrEnum):
    """The share of a host's nodes that fail as its loss would make them."""

    FEW = "few"
    MOST = "most"
    LEFT = "left"
    """Few, and the incident of the host as lost is open: the others have been moved away."""


class Fault(StrEnum):
    """The attribution of a failure: node, host, or unclear."""

    NODE = "node"
    HOST_LOST = "host-lost"
    HOST_UNCLEAR = "host-unclear"


TABLE: Final[Mapping[tuple[Word, Share], Fault]] = {
    (Word.UP, Share.FEW): Fault.NODE,
    # Its nodes are silent and it lives: the network, storage, or our own view.
    (Word.UP, Share.MOST): Fault.HOST_UNCLEAR,
    (Word.UP, Share.LEFT): Fault.NODE,
    # Others there answer: its agent is away, or the road to it.
    (Word.LOST, Share.FEW): Fault.HOST_UNCLEAR,
    (Word.LOST, Share.MOST): Fault.HOST_LOST,
    (Word.LOST, Share.LEFT): Fault.HOST_LOST,
    (Word.NOTHING, Share.FEW): Fault.NODE,
    (Word.NOTHING, Share.MOST): Fault.HOST_UNCLEAR,
    # It was lost, and nobody can say whether it still is.
    (Word.NOTHING, Share.LEFT): Fault.HOST_UNCLEAR,
}

_WORDS: Final[Mapping[str, Word]] = {
    "HV-UP": Word.UP,
    "HV-DOWN": Word.LOST,
    "HV-GONE": Word.LOST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The backend's report on a host, and its time (µs, UTC)."""

    word: Word
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The counts of one host's nodes, over all clusters that the engine watches and can see."""

    watched: int
    sick: int
    suspect: int
    alive: int
    word: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """The report on the host of an unhealthy node."""

    name: str
    word: Word
    watched: int
    """Nodes there that we watch."""
    sick: int
    """Those judged unhealthy that fail as the host's loss would make them, and began together."""
    suspect: int
    """Likewise, of those that are doubted."""
    alive: int
    """Those that answered for themselves when they were asked last."""
    shared: bool
    """Whether the node itself fails so."""
    open: bool
    """Whether the incident of this host as lost is open."""


def fails_with_its_host(memory: NodeMemory) -> bool:
    """Whether an unhealthy or suspect node fails as the loss of its host would make it."""
    if memory.health not in {Health.UNHEALTHY, Health.SUSPECT}:
        return False
    against = failing(memory)
    if any(_WORDS.get(seen.code) is Word.LOST for seen in against):
        return True
    return bool(against) and not any(seen.answered for seen in against)


def answers_itself(memory: NodeMemory, since_us: int = 0) -> bool:
    """Whether the node itself answered, so that some host carries it; `since_us`: after that (µs)."""
    return any(
        seen.answered and seen.at_us > since_us and not seen.code.startswith(REPEATED)
        for track in memory.tracks.values()
        if (seen := track.last) is not None
    )


def spoken(memories: Iterable[NodeMemory]) -> Spoken | None:
    """Return the backend's latest report on a host; None where no mode asks for it."""
    found = [
        Spoken(word=_WORDS.get(seen.code, Word.NOTHING), at_us=seen.at_us)
        for memory in memories
        for track in memory.tracks.values()
        if (seen := track.last) is not None and seen.code.startswith("HV-")
    ]
    # Of two words at one moment the one that lets less be done.
    return max(found, key=lambda s: (s.at_us, s.word is not Word.LOST), default=None)


def count(memories: Iterable[NodeMemory], asked: Spoken | None = None) -> Count:
    """Count the nodes of one host; `asked`: its word where no mode asks for it."""
    known = sorted(memories, key=lambda m: m.node_id)
    said = spoken(known) or asked
    together = _together([m for m in known if fails_with_its_host(m)])
    sick = sum(m.health is Health.UNHEALTHY for m in together)
    return Count(
        watched=len(known),
        sick=sick,
        suspect=len(together) - sick,
        alive=sum(answers_itself(m) for m in known if not fails_with_its_host(m)),
        word=Word.NOTHING if said is None else said.word,
    )


def _together(memories: Sequence[NodeMemory]) -> Sequence[NodeMemory]:
    """Return the largest number of nodes that began to fail within one window.

    Not those since the last one began: a node that fails anew must not make it forgotten that it
    is one of many.
    """
    known = sorted(memories, key=_began_us)
    began = [_began_us(m) for m in known]
    spans = ((first, bisect_right(began, at + TOGETHER_US)) for first, at in enumerate(began))
    first, after = max(spans, key=lambda span: span[1] - span[0], default=(0, 0))
    return known[first:after]


def _began_us(memory: NodeMemory) -> int:
    return memory.since_us if memory.first_fail_us is None else memory.first_fail_us


def host_report(name: str, seen: Count, memory: NodeMemory, *, lost: bool) -> HostReport:
    """Return what one node's decision needs of its host; `lost`: its incident as lost is open."""
    return HostReport(
        name=name,
        word=seen.word,
        watched=seen.watched,
        sick=seen.sick,
        suspect=seen.suspect,
        alive=seen.alive,
        shared=fails_with_its_host(memory),
        open=lost,
    )


def share_of(seen: HostReport) -> Share:
    """Return how many of the host's nodes fail with it."""
    failing_so = seen.sick + seen.suspect
    if seen.word is Word.LOST:
        # No coincidence has to be ruled out: the backend says it, and a node of it bears it out.
        most = failing_so > seen.alive
    else:
        most = failing_so >= MIN_NODES and 2 * failing_so > seen.watched
    if most:
        return Share.MOST
    return Share.LEFT if seen.open else Share.FEW


def judge(seen: HostReport | None) -> Fault:
    """Attribute the failure of an unhealthy node."""
    if seen is None:
        return Fault.NODE
    fault = TABLE[seen.word, share_of(seen)]
    # That others beside it are silent says nothing of a node whose failure an answer bears out.
    return fault if seen.shared or fault is Fault.HOST_LOST else Fault.NODE


def is_lost(seen: HostReport | None) -> bool:
    """Whether the node has failed because its host is lost."""
    return judge(seen) is Fault.HOST_LOST


def ladder_of(
    actions: tuple[RecoveryAction, ...], seen: HostReport | None
) -> tuple[RecoveryAction, ...]:
    """Return the actions in the order in which they are tried: off a lost host first, if at all."""
    if not is_lost(seen):
        return actions
    return tuple(sorted(actions, key=lambda action: action.name != EVACUATE))


def may_count_as_one(lost: int, known: int, threshold: int) -> bool:
    """Whether each lost host of a cluster is one failure, and not as many as it has nodes.

    `known`: hosts of the cluster; `threshold`: how many of them may be unhealthy. Where all are lost it
    is the backend that is, or the site: then every node counts, as ever.
    """
    return 0 < lost < known and lost <= min(threshold, AS_ONE_MAX)


def place_of(host: str, facts: Mapping[str, object]) -> str:
    """Return the qualified name of a host, for two clouds may each have one of the same name.

    `facts`: the attributes of a node on it, or that was.
    """
    cloud = str(facts.get(BY_CLOUD) or "")
    return f"{host}@{cloud}" if cloud and host else host


def key_of(name: str) -> str:
    """Return the unique key of a host's open incident; as short as a node's id."""
    return f"host:{sha256(name.encode()).hexdigest()[:31]}"


def keys_of(name: str) -> tuple[str, ...]:
    """Return the keys under which a host's incident may be open, ours first.

    Engines of before know a host by its bare name: what such a one has opened goes on.
    """
    bare = name.rpartition("@")[0]
    return (key_of(name), key_of(bare)) if bare else (key_of(name),)


def sentence(seen: HostReport) -> str:
    """Return one line about the host as a whole."""
    doubted = f", {seen.suspect} more are suspected" if seen.suspect else ""
    told = f"{seen.sick} of {seen.watched} nodes that we watch there fail with it{doubted}"
    if is_lost(seen):
        return f"host {seen.name} is lost, by the backend's word; {told}"
    if seen.word is Word.LOST:
        others = f"{seen.alive} others there answer"
        return f"host {seen.name} is lost, by the backend's word, but {others}; {told}"
    says = "is up" if seen.word is Word.UP else "may be lost or not"
    return f"host {seen.name} {says}, by the backend's word; {told}, and nothing answers"
