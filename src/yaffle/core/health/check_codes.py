"""The table of check codes: every way in which a check can end, with its outcome, word and sentence.

Detectors name a row and never an outcome, so that the same event means the same thing everywhere.
`answered` feeds "is it me?" (design/failure#guards): a reset or a refused connection is an answer of the
target's side, silence is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.model.health import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: one way in which a check can end."""

    code: str
    outcome: Outcome
    answered: bool
    connection_error: bool
    """Subject to `poll_url_conn_error_as_unhealthy`."""
    word: str
    sentence: str


def _row(code: str, outcome: Outcome, flags: str, word: str, sentence: str) -> tuple[str, Row]:
    """`flags`: `a` something answered, `c` a connection error."""
    return code, Row(code, outcome, "a" in flags, "c" in flags, word, sentence)


AS_IT_IS: Final = frozenset({"EV-OWN-WILL", "ST-LOCKED"})
"""Codes of what does not run, and is to stay so: it counts as well, and is not said to run."""
OF_HOST: Final = "HV-"
"""Codes of what is said of the machine under a node begin so."""

_P, _W, _F, _U = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN

OUTCOMES: Final[Mapping[str, Row]] = MappingProxyType(
    dict(
        (
            # The backend's word about the node.
            _row("ST-UP", _P, "a", "up", "The backend says that the node is running."),
            _row("ST-DOWN", _F, "a", "down", "The backend says that the node is not running."),
            _row("ST-GONE", _F, "a", "gone", "The backend does not know the node any more."),
            _row("ST-FROZEN", _F, "a", "frozen", "The node exists but is stopped or frozen."),
            _row("ST-STUCK", _F, "a", "stuck", "What the backend does to the node moves no more."),
            _row("ST-LOCKED", _W, "a", "locked", "Not running, and locked: it is left alone."),
            _row("ST-UNCLEAR", _U, "", "unclear", "The backend could not tell how the node is."),
            _row("ST-ERROR", _U, "", "backend error", "The backend failed to answer us."),
            _row("ST-TIMEOUT", _U, "", "backend timeout", "The backend did not answer in time."),
            # The backend's word about the machine under the node.
            _row("HV-UP", _P, "a", "host up", "The backend says that the node's host is up."),
            _row("HV-DOWN", _F, "a", "host down", "The backend has lost the node's host."),
            _row("HV-GONE", _F, "a", "host gone", "The backend does not know the node's host."),
            _row("HV-UNCLEAR", _U, "", "host unclear", "The backend told nothing of the host."),
            _row("HV-ERROR", _U, "", "hosts error", "The backend failed to tell of its hosts."),
            _row(
                "HV-TIMEOUT",
                _U,
                "",
                "hosts timeout",
                "The backend told nothing of its hosts in time.",
            ),
            # What the backend tells by itself, and what it says when it is asked because of that.
            _row("EV-QUIET", _P, "a", "quiet", "Read as well before, and no event since then."),
            _row(
                "EV-OWN-WILL", _W, "a", "as asked", "Not running, because somebody asked for that."
            ),
            # A load balancer's word about the node as a member of a pool (core.members).
            _row("LB-UP", _P, "a", "in rotation", "The balancer's checks of the node pass."),
            _row("LB-FALLING", _W, "a", "falling", "Up, but the balancer's last checks failed."),
            _row("LB-DEGRADED", _W, "a", "degraded", "The balancer says that it is degraded."),
            _row("LB-DRAIN", _W, "a", "draining", "Well, but it takes no new sessions."),
            _row("LB-SPLIT", _W, "a", "balancers differ", "One balancer says down, another up."),
            _row("LB-DOWN", _F, "a", "out of rotation", "The balancer's checks of the node fail."),
            _row("LB-SILENT", _F, "", "silent to balancer", "The balancer's checks get no answer."),
            _row(
                "LB-FAILED",
                _F,
                "",
                "failed, no reason",
                "The balancer fails it, and gives no reason.",
            ),
            _row("LB-MAINT", _U, "", "set aside", "Somebody has set the member aside."),
            _row("LB-UNCHECKED", _U, "", "unchecked", "The balancer does not check the member."),
            _row("LB-INITIAL", _U, "", "not checked yet", "The balancer has not checked it yet."),
            _row("LB-ODD", _U, "", "odd word", "The balancer uses a word that we do not know."),
            _row("LB-NO-MEMBER", _U, "", "no member", "The pool has no member that is the node."),
            _row("LB-AMBIGUOUS", _U, "", "several members", "Which member it is cannot be told."),
            _row("LB-NO-POOL", _U, "", "no pool", "The balancer has no such pool."),
            _row("LB-ERROR", _U, "", "balancer error", "The balancer failed to answer us."),
            _row("LB-TIMEOUT", _U, "", "balancer timeout", "The balancer did not answer in time."),
            # A URL of the node: an answer was read to its end.
            _row("L7-OK", _P, "a", "ok", "The URL answered as a healthy node does."),
            _row("L7-WARN", _W, "a", "warn", "The health document says warn."),
            _row("L7-FAIL", _F, "a", "fail", "The health document says fail."),
            _row("L7-STATUS", _F, "a", "status", "The URL answered with an HTTP error status."),
            _row(
                "L7-REDIRECT", _F, "a", "redirect", "The URL redirects; redirects are not followed."
            ),
            _row("L7-PATTERN", _F, "a", "no match", "The body does not match the healthy pattern."),
            _row("L7-TOO-LARGE", _F, "a", "too large", "The answer is larger than the limit."),
            _row("L7-INVALID", _F, "a", "not HTTP", "The answer is not valid HTTP."),
            _row("L7-SHORT", _F, "a", "cut short", "The connection ended inside the answer."),
            # Connected, but no whole answer: the handshake of TCP was an answer all the same.
            _row(
                "L7-TIMEOUT", _F, "ac", "answer timeout", "Connected, but no whole answer in time."
            ),
            _row("L7-RESET", _F, "ac", "reset", "The connection was reset before an answer."),
            _row("L7-CLOSED", _F, "ac", "closed", "The connection was closed without an answer."),
            # TLS.
            _row("L6-TLS", _F, "ac", "TLS failed", "The TLS handshake failed."),
            _row("L6-CERT", _F, "ac", "bad certificate", "The certificate does not verify."),
            _row("L6-TIMEOUT", _F, "ac", "TLS timeout", "The TLS handshake did not end in time."),
            # No connection.
            _row("L4-REFUSED", _F, "ac", "refused", "The connection was refused."),
            _row("L4-TIMEOUT", _F, "c", "no answer", "No connection in time: nothing answered."),
            _row("L4-UNREACH", _F, "c", "unreachable", "The network says: unreachable."),
            _row("L3-DNS", _F, "c", "no such name", "The host name does not resolve."),
            # We could not ask.
            _row("X-DNS", _U, "", "resolver failed", "The name server did not answer us."),
            _row("X-LOCAL", _U, "", "local error", "Our own side failed (sockets, memory)."),
            _row("X-REFUSED-ADDRESS", _U, "", "address refused", "The address is not allowed."),
            _row("X-BAD-URL", _U, "", "bad URL", "The expanded URL is not a usable URL."),
            _row(
                "X-LATE",
                _U,
                "",
                "we were late",
                "Our own loop was late; what it missed is unknown.",
            ),
            _row("X-PROBER", _U, "", "prober away", "The prober process is away."),
            _row("X-DEADLINE", _U, "", "not asked in time", "The check did not fit its deadline."),
            _row("X-BUG", _U, "", "driver error", "The driver failed; see the log."),
            _row("X-UNEXPANDED", _U, "", "not known yet", "The node lacks a value the URL needs."),
        )
    )
)


def judge(code: str, *, conn_error_as_unhealthy: bool = True) -> Outcome:
    """Return what `code` means; a connection error is unknown where the policy says so."""
    row = OUTCOMES[code]
    if row.connection_error and not conn_error_as_unhealthy:
        return Outcome.UNKNOWN
    return row.outcome
