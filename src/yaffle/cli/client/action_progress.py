"""Commands that start an action follow it to its end: how far it is, and why it failed, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.cli.client.native import Api, Refused, Row, inner
from yaffle.cli.client.waiting import Stand, WorkFailed, wait
from yaffle.cli.output import note, short, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaffle.cli.client.clustering import Started
    from yaffle.cli.output import Output

ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
REASONS_MAX: Final = 10
"""So many failed parts are told one by one."""


def follow(
    api: Api,
    action: str,
    what: str,
    *,
    timeout_s: float,
    beside: Callable[[Row], str] | None = None,
    quiet: bool = False,
) -> Row:
    """Return the action once it has succeeded; raise WorkFailed, NotInTime, and what `api` raises.

    `what`: whose work it is, for the lines of progress. `beside` adds to them what the action does
    not say, and may raise. `quiet`: without such lines.
    """
    pursuit = Pursuit(api, action, beside)
    later = f"yaffle action wait {short(action)}"
    wait(what, pursuit.look, timeout_s=timeout_s, later=later, quiet=quiet)
    if pursuit.row.get("status") != "SUCCEEDED":
        raise WorkFailed("\n".join([f"{what}: {_end(pursuit.row)}", *reasons(api, pursuit.row)]))
    return pursuit.row


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The way a command goes on after it has begun an action: it waits, or does not."""

    api: Api
    output: Output
    no_wait: bool
    timeout_s: float

    def follow(
        self, started: Started, what: str, beside: Callable[[Row], str] | None = None
    ) -> Row:
        """As the function of that name."""
        return follow(self.api, started.action, what, timeout_s=self.timeout_s, beside=beside)

    def finish(self, started: Started, what: str, *, said: str, going: str) -> None:
        """Follow the action unless nobody wants to wait, and print it: `said` done, or `going` on."""
        if self.no_wait:
            self.left(started, going)
        else:
            row = self.follow(started, what)
            warnings = inner(row, "outputs").get("warnings")
            for warning in warnings if isinstance(warnings, list) else ():
                note(f"warning: {warning}")
            self.output.say({"action": row}, said)

    def left(self, started: Started, going: str) -> None:
        """Print what goes on without us, beside the object as it was where there is one."""
        shown = {key: value for key, value in started.body.items() if key != "action"}
        row = action_of(self.api, started.action)
        text = f"{going}; follow it: yaffle action wait {short(started.action)}"
        self.output.say({**shown, "action": row}, text)


def action_of(api: Api, ident: str) -> Row:
    """Return an action."""
    return inner(api.v1.get("actions", ident), "action")


class Pursuit:
    """The tracking of one action until its end; `row` is its last state."""

    def __init__(self, api: Api, action: str, beside: Callable[[Row], str] | None = None) -> None:
        self.row: Row = {}
        self._api = api
        self._id = action
        self._beside = beside
        self._parts: set[str] = set()

    def look(self) -> Stand:
        """Return how far it is."""
        self.row = action_of(self._api, self._id)
        status = str(self.row.get("status"))
        if status in ENDED:
            return Stand(text=status.lower(), done=True)
        left = _ids(self.row.get("depends_on"))
        self._parts.update(left)
        texts = [self._beside(self.row) if self._beside else "", self._progress(len(left))]
        return Stand(text=next((text for text in texts if text), status.lower()))

    def _progress(self, left: int) -> str:
        """Return how many parts are done; "" for an action that has none."""
        count = len(self._parts)
        return f"{count - left} of {count} parts done" if count else ""


def reasons(api: Api, action: Row) -> list[str]:
    """Return why the parts of a failed action failed, one line each."""
    if not str(action.get("action")).startswith("CLUSTER_"):
        return []
    query = {
        "cluster_id": action.get("cluster_id"),
        "status": ["FAILED", "CANCELLED"],
        "sort": "created_at:desc",
    }
    listed = api.v1.listed("actions", query, limit=1000)
    mine = [row for row in listed if _is_part(row, action)]
    lines = [f"{_name(api, row)}: {_end(row)}" for row in mine[:REASONS_MAX]]
    more = len(mine) - REASONS_MAX
    return [*sorted(lines), *([f"and {more} more"] if more > 0 else [])]


def _is_part(row: Row, action: Row) -> bool:
    """Whether a row is a part of the action: actions of one cluster come one after the other."""
    begun, ended = _seconds(action.get("start_time")), _seconds(action.get("end_time"))
    at = _seconds(row.get("end_time"))
    derived = str(row.get("cause")).startswith("Derived")
    return derived and (begun is None or at is None or begun <= at <= (ended or at))


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _end(row: Row) -> str:
    return (
        f"{row.get('action')} {str(row.get('status')).lower()}: {shown(row.get('status_reason'))}"
    )


def _name(api: Api, row: Row) -> str:
    """Return `node web-1`; the beginning of its id where it is gone."""
    ident = str(row.get("target"))
    try:
        return f"node {inner(api.v1.get('nodes', ident), 'node').get('name')}"
    except Refused:
        return f"node {short(ident)}"


def _ids(value: object) -> list[str]:
    return [str(ident) for ident in value] if isinstance(value, list) else []
