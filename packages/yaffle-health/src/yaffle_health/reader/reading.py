"""What one question to a process gave: a verdict, or the reason why there is none.

"Nobody answered" and "it says that it fails" are different facts, and a script acts on the
difference, so a reading without a verdict has `status` None and a `problem`.
"""

from __future__ import annotations

import dataclasses
import enum

from yaffle_health.model import Health, Status
from yaffle_health.reader.body import Document


class Problem(enum.StrEnum):
    """Why there is no verdict."""

    MISSING = "missing"  # no such socket file
    REFUSED = "refused"  # nobody listens
    DENIED = "denied"  # we may not connect
    UNRESOLVED = "unresolved"  # the name has no address
    UNREACHABLE = "unreachable"  # the network says no
    TIMEOUT = "timeout"  # no whole answer in time
    NOT_HTTP = "not-http"  # an answer, but not one that we read
    NOT_HEALTH = "not-health"  # HTTP, but nobody speaks of health there


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One answer, or the lack of one.

    `status` is the verdict: the HTTP status decides when the body disagrees with it, and then
    `disagreements` says so. `health` is the body as it was, so its status may differ.
    """

    address: str
    took_s: float
    status: Status | None = None
    problem: Problem | None = None
    why: str | None = None
    http_status: int | None = None
    health: Health | None = None
    disagreements: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What HTTP and the body together say."""

    status: Status | None
    disagreements: tuple[str, ...] = ()
    why: str | None = None


def judge(http_status: int, document: Document) -> Verdict:
    """Weigh the HTTP status against the body: the status decides (ADR 0020).

    pass and warn are 2xx-3xx, fail is 4xx-5xx (draft-inadarei-api-health-check-06 §3.1).
    """
    said = document.status
    if said is None:
        return _without_words(http_status, document)
    well = http_status < 400
    if well == (said is not Status.FAIL):
        return Verdict(status=said, disagreements=document.remarks)
    remark = f"HTTP {http_status}, but the body says {said}"
    # 200 means pass or warn. Of the two, warn is the one that a body which says fail allows.
    status = Status.WARN if well else Status.FAIL
    return Verdict(status=status, disagreements=(remark, *document.remarks))


def _without_words(http_status: int, document: Document) -> Verdict:
    remarks = document.remarks
    if 200 <= http_status < 300:
        return Verdict(status=Status.PASS, disagreements=remarks)
    if http_status >= 500:
        return Verdict(status=Status.FAIL, disagreements=remarks)
    hint = {
        404: "is the path right?",
        401: "it wants to know who asks",
        403: "it wants to know who asks",
    }.get(http_status, "it redirects elsewhere" if http_status < 400 else "it refused the question")
    if document.sentence is not None:
        # It knows better than we do: an unknown group is answered with those there are.
        hint = document.sentence
    return Verdict(
        status=None,
        why=f"HTTP {http_status} without a health document: {hint}",
        disagreements=remarks,
    )
