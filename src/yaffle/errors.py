"""Errors, as one tree; each class says whose fault it is and which HTTP status tells so.

    YaffleError
    ├── UserError                 the caller must change something
    │   ├── Listed                     lists every fault found
    │   │   ├── InvalidSpec       400  a document or argument is wrong, with its place
    │   │   └── ConfigError       exit 2  a setting is wrong; the message names it and its value
    │   ├── BadRequest            400  right in form, wrong in meaning
    │   │   ├── MultipleChoices        several objects answer to that name
    │   │   └── OverQuota              more than a project may have
    │   ├── NotFound              404  no such object
    │   │   └── PolicyBindingNotFound  both exist, but nothing binds them
    │   ├── Conflict              409  right request, wrong moment (locked, in progress, held)
    │   │   ├── ResourceInUse          something else refers to it
    │   │   ├── ResourceIsLocked       an action that has begun holds it
    │   │   ├── ActionConflict         another action of the same target is not over
    │   │   ├── ActionCooldown         a scaling policy rests
    │   │   ├── ActionInProgress       it is being made, changed or deleted
    │   │   ├── ActionImmutable        the action has ended
    │   │   ├── FeatureNotSupported    not in this state
    │   │   └── NodeNotOrphan          the node belongs to a cluster
    │   ├── TooManyRequests       429  later; the error says when
    │   └── Forbidden             403  not allowed here (feature off, missing right)
    ├── DependencyError           503  something we need is away: database, prober, backend
    │   ├── StoreUnavailable
    │   ├── ProberUnavailable
    │   └── EngineUnavailable
    └── StaleEpoch                a late hand: the writer no longer holds the lease it acts under

Messages say what failed, on what, and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class YaffleError(Exception):
    """Root of every error that Yaffle raises on purpose."""

    status: ClassVar[int] = 500

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        """What to do next; shown after the message, never part of it."""


class UserError(YaffleError):
    """The caller can mend it."""

    status: ClassVar[int] = 400


class Listed(UserError):
    """Several faults may be told at once; `problems` lists every one found, each with its place."""

    def __init__(self, problems: Sequence[str] | str, *, hint: str = "") -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        super().__init__("\n".join(self.problems), hint=hint)


class InvalidSpec(Listed):
    """A document or an argument is wrong."""


class BadRequest(UserError):
    """Every word is known, but together they ask for what cannot be."""


class MultipleChoices(BadRequest):
    """Several objects answer to that name; an id would tell them apart."""


class OverQuota(BadRequest):
    """The project has as many as it may have."""


class NotFound(UserError):
    """Raised where no object answers to that name or id."""

    status: ClassVar[int] = 404


class PolicyBindingNotFound(NotFound):
    """The policy and the cluster exist, but nothing binds them."""


class Conflict(UserError):
    """The request is right but not now: the message says what is in the way."""

    status: ClassVar[int] = 409


class ResourceInUse(Conflict):
    """Something else refers to it."""


class ResourceIsLocked(Conflict):
    """An action that has begun holds the target."""


class ActionConflict(Conflict):
    """Another action of the same target has not ended."""


class ActionCooldown(Conflict):
    """A scaling policy rests after its last act."""


class ActionInProgress(Conflict):
    """The object is being made, changed or deleted; `force` would override that."""


class ActionImmutable(Conflict):
    """The action has ended: nothing about it changes any more."""


class FeatureNotSupported(Conflict):
    """Raised for an object whose state does not allow it."""


class NodeNotOrphan(Conflict):
    """The node belongs to a cluster already."""


class TooManyRequests(UserError):
    """Asked too often: `retry_after_s` seconds from now it may be asked again."""

    status: ClassVar[int] = 429

    def __init__(self, message: str = "", *, retry_after_s: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class Forbidden(UserError):
    """Raised for what is not allowed here: the message names the setting or right that would allow it."""

    status: ClassVar[int] = 403


class ConfigError(Listed):
    """A setting is wrong; the message names the setting and the value."""


class DependencyError(YaffleError):
    """Something we need is away; the caller may try again later."""

    status: ClassVar[int] = 503


class StoreUnavailable(DependencyError):
    """The database cannot be reached, is locked, or its disk is full."""


class ProberUnavailable(DependencyError):
    """The prober process is away; it is being restarted."""


class EngineUnavailable(DependencyError):
    """The engine beside this API process does not answer."""


class StaleEpoch(YaffleError):
    """The lease moved on: whoever raised this must stop acting at once."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield what was raised, without the groups that task groups put around it."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
