"""Shape of a document: which keys exist where, and what each may hold, for all versions at once.

None means "not given"; defaults depend on the version and are applied by `build`. A list or mapping
written as nothing counts as not given; a number, flag or text written as nothing is a fault. Which
keys an older version lacks is one table here, so that the message can name the version they need.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from yaffle.model.policy import (
    ActionKind,
    Conditional,
    FencingKind,
    ModeType,
    RecoveryMode,
    Threshold,
    WhenExceeded,
)
from yaffle.policy import fields as f
from yaffle.policy.faults import Path

MODES_MAX: Final = 16
RUNGS_MAX: Final = 16

_Flag = Annotated[bool | None, f.FLAG]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class OptionsSpec(_Spec):
    """`options` of one detection mode."""

    poll_url: Annotated[str | None, f.POLL_URL] = None
    poll_url_ssl_verify: _Flag = None
    poll_url_conn_error_as_unhealthy: _Flag = None
    poll_url_healthy_response: Annotated[str | None, f.PATTERN] = None
    poll_url_retry_limit: Annotated[int | None, f.count(1, 100)] = None
    poll_url_retry_interval: Annotated[float | None, f.seconds(0, 3600)] = None
    poll_url_timeout: Annotated[float | None, f.seconds(0.05, 300)] = None
    poll_url_keep_alive: _Flag = None


class ModeSpec(_Spec):
    """One of `detection_modes`."""

    type: Annotated[ModeType, f.word(ModeType)]
    options: OptionsSpec | None = None


class DetectionSpec(_Spec):
    """`detection`."""

    interval: Annotated[float | None, f.INTERVAL] = None
    node_update_timeout: Annotated[float | None, f.seconds(0, 7 * f.DAY)] = None
    recovery_conditional: Annotated[Conditional | None, f.word(Conditional)] = None
    rise: Annotated[int | None, f.count(1, 100)] = None
    fall: Annotated[int | None, f.count(1, 100)] = None
    detection_modes: Annotated[list[ModeSpec], Field(max_length=MODES_MAX)] | None = None
    reference_targets: Annotated[list[Annotated[str, f.REFERENCE]], Field(max_length=16)] | None = (
        None
    )


class ActionSpec(_Spec):
    """One of `recovery.actions`."""

    name: Annotated[str, f.text(255, 1)]
    type: Annotated[ActionKind | None, f.word(ActionKind)] = None
    params: dict[str, object] | None = None
    timeout: Annotated[float | None, f.seconds(1)] = None
    in_place: _Flag = None


class EvidenceSpec(_Spec):
    """`recovery.evidence`."""

    console_log: _Flag = None
    timeout: Annotated[float | None, f.seconds(1, 3600)] = None


class SnapshotSpec(_Spec):
    """`recovery.snapshot`."""

    take: _Flag = None
    restore: _Flag = None
    timeout: Annotated[float | None, f.seconds(1)] = None


class LimitsSpec(_Spec):
    """`recovery.limits`."""

    max_unhealthy: Annotated[Threshold | None, f.THRESHOLD] = None
    when_exceeded: Annotated[WhenExceeded | None, f.word(WhenExceeded)] = None
    max_in_flight: Annotated[int | None, f.count(1, 10_000)] = None
    domain: Annotated[str | None, f.DOMAIN] = None


class RetrySpec(_Spec):
    """`recovery.retry`."""

    attempts: Annotated[int | None, f.count(1, 1000)] = None
    backoff: Annotated[float | None, f.seconds(0)] = None
    max_backoff: Annotated[float | None, f.seconds(0, 7 * f.DAY)] = None
    stable_after: Annotated[float | None, f.seconds(0, 30 * f.DAY)] = None


class RecoverySpec(_Spec):
    """`recovery`."""

    actions: Annotated[list[ActionSpec], Field(max_length=RUNGS_MAX)] | None = None
    fencing: Annotated[list[Annotated[FencingKind, f.word(FencingKind)]], Field(max_length=8)] | (
        None
    ) = None
    node_delete_timeout: Annotated[float | None, f.seconds(0)] = None
    node_force_recreate: _Flag = None
    mode: Annotated[RecoveryMode | None, f.word(RecoveryMode)] = None
    evidence: EvidenceSpec | None = None
    snapshot: SnapshotSpec | None = None
    limits: LimitsSpec | None = None
    retry: RetrySpec | None = None


class PropertiesSpec(_Spec):
    """`properties`."""

    detection: DetectionSpec
    recovery: RecoverySpec


class DocumentSpec(_Spec):
    """The whole document; type and version are judged before."""

    type: object
    version: object
    name: Annotated[str | None, f.text(255, 1)] = None
    description: Annotated[str | None, f.text(4096)] = None
    properties: PropertiesSpec


def place(path: Path) -> tuple[str, ...]:
    """Return the path without list places: where in the schema a value stands."""
    return tuple(part for part in path if isinstance(part, str))


_P: Final = ("properties",)
_D: Final = (*_P, "detection")
_M: Final = (*_D, "detection_modes")
_R: Final = (*_P, "recovery")

SHAPES: Final[dict[tuple[str, ...], type[_Spec]]] = {
    (): DocumentSpec,
    _P: PropertiesSpec,
    _D: DetectionSpec,
    _M: ModeSpec,
    (*_M, "options"): OptionsSpec,
    _R: RecoverySpec,
    (*_R, "actions"): ActionSpec,
    (*_R, "evidence"): EvidenceSpec,
    (*_R, "snapshot"): SnapshotSpec,
    (*_R, "limits"): LimitsSpec,
    (*_R, "retry"): RetrySpec,
}
"""Every mapping of the schema by its place."""

SINCE_1_3: Final[frozenset[tuple[str, ...]]] = frozenset(
    {
        (*_D, "rise"),
        (*_D, "fall"),
        (*_D, "reference_targets"),
        (*_M, "options", "poll_url_timeout"),
        (*_M, "options", "poll_url_keep_alive"),
        (*_R, "actions", "timeout"),
        (*_R, "actions", "in_place"),
        (*_R, "mode"),
        (*_R, "evidence"),
        (*_R, "snapshot"),
        (*_R, "limits"),
        (*_R, "retry"),
    }
)
"""Keys that documents below 1.3 do not have."""

WORDS_SINCE_1_3: Final[frozenset[tuple[tuple[str, ...], str]]] = frozenset(
    {
        ((*_M, "type"), ModeType.LB_STATUS_POLLING.value),
        ((*_R, "fencing"), FencingKind.HOST.value),
        ((*_R, "actions", "type"), ActionKind.COMMAND.value),
        ((*_R, "actions", "type"), ActionKind.HTTP.value),
    }
)
"""Values that documents below 1.3 do not know."""


def keys_at(where: tuple[str, ...], *, newest: bool) -> tuple[str, ...]:
    """Return the keys of the mapping at `where`, without those an older version lacks."""
    shape = SHAPES.get(where)
    names = tuple(shape.model_fields) if shape is not None else ()
    return names if newest else tuple(n for n in names if (*where, n) not in SINCE_1_3)


def homes_of(key: str) -> tuple[tuple[str, ...], ...]:
    """Return every mapping of the schema that has `key`."""
    return tuple(where for where, shape in SHAPES.items() if key in shape.model_fields)
