"""Shape of a health policy: which keys exist where, and what each may hold, for all versions at once.

None means "not given"; defaults depend on the version and are applied by `build`. A list or mapping
written as nothing counts as not given; a number, flag or text written as nothing is a fault. Which
keys an older version lacks is one table here, so that the message can name the version they need.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from yaffle.model.policy import (
    Conditional,
    FencingKind,
    ModeType,
    RecoveryMode,
    RungKind,
    Threshold,
    WhenExceeded,
)
from yaffle.policy import field_types as f
from yaffle.policy.versions import Grammar, Place, Spec

MODES_MAX: Final = 16
RUNGS_MAX: Final = 16

_Flag = Annotated[bool | None, f.FLAG]


class OptionsSpec(Spec):
    """`options` of one detection mode."""

    poll_url: Annotated[str | None, f.POLL_URL] = None
    poll_url_ssl_verify: _Flag = None
    poll_url_conn_error_as_unhealthy: _Flag = None
    poll_url_healthy_response: Annotated[str | None, f.PATTERN] = None
    poll_url_retry_limit: Annotated[int | None, f.count(1, 100)] = None
    poll_url_retry_interval: Annotated[float | None, f.seconds(0, 3600)] = None
    poll_url_timeout: Annotated[float | None, f.seconds(0.05, 300)] = None
    poll_url_keep_alive: _Flag = None
    pool: Annotated[str | None, f.POOL] = None
    balancer: Annotated[str | None, f.POOL] = None


class ModeSpec(Spec):
    """One of `detection_modes`."""

    type: Annotated[ModeType, f.word(ModeType)]
    options: OptionsSpec | None = None


class DetectionSpec(Spec):
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


class ActionSpec(Spec):
    """One of `recovery.actions`."""

    name: Annotated[str, f.text(255, 1)]
    type: Annotated[RungKind | None, f.word(RungKind)] = None
    params: dict[str, object] | None = None
    timeout: Annotated[float | None, f.seconds(1)] = None
    in_place: _Flag = None


class EvidenceSpec(Spec):
    """`recovery.evidence`."""

    console_log: _Flag = None
    timeout: Annotated[float | None, f.seconds(1, 3600)] = None


class SnapshotSpec(Spec):
    """`recovery.snapshot`."""

    take: _Flag = None
    restore: _Flag = None
    timeout: Annotated[float | None, f.seconds(1)] = None


class LimitsSpec(Spec):
    """`recovery.limits`."""

    max_unhealthy: Annotated[Threshold | None, f.THRESHOLD] = None
    when_exceeded: Annotated[WhenExceeded | None, f.word(WhenExceeded)] = None
    max_in_flight: Annotated[int | None, f.count(1, 10_000)] = None
    domain: Annotated[str | None, f.DOMAIN] = None


class RetrySpec(Spec):
    """`recovery.retry`."""

    attempts: Annotated[int | None, f.count(1, 1000)] = None
    backoff: Annotated[float | None, f.seconds(0)] = None
    max_backoff: Annotated[float | None, f.seconds(0, 7 * f.DAY)] = None
    stable_after: Annotated[float | None, f.seconds(0, 30 * f.DAY)] = None


class RecoverySpec(Spec):
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


class PropertiesSpec(Spec):
    """`properties`."""

    detection: DetectionSpec
    recovery: RecoverySpec


class DocumentSpec(Spec):
    """The whole document; type and version are judged before."""

    type: object
    version: object
    name: Annotated[str | None, f.text(255, 1)] = None
    description: Annotated[str | None, f.text(4096)] = None
    properties: PropertiesSpec


_P: Final = ("properties",)
_D: Final = (*_P, "detection")
_M: Final = (*_D, "detection_modes")
_R: Final = (*_P, "recovery")

SHAPES: Final[dict[Place, type[Spec]]] = {
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

SINCE_1_3: Final[frozenset[Place]] = frozenset(
    {
        (*_D, "rise"),
        (*_D, "fall"),
        (*_D, "reference_targets"),
        (*_M, "options", "poll_url_timeout"),
        (*_M, "options", "poll_url_keep_alive"),
        (*_M, "options", "pool"),
        (*_M, "options", "balancer"),
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

WORDS_SINCE_1_3: Final[frozenset[tuple[Place, str]]] = frozenset(
    {
        ((*_M, "type"), ModeType.LB_STATUS_POLLING.value),
        ((*_R, "fencing"), FencingKind.HOST.value),
        ((*_R, "actions", "type"), RungKind.COMMAND.value),
        ((*_R, "actions", "type"), RungKind.HTTP.value),
    }
)
"""Values that documents below 1.3 do not know."""

GRAMMAR: Final = Grammar(
    shapes=SHAPES,
    since=dict.fromkeys(SINCE_1_3, "1.3"),
    words_since=dict.fromkeys(WORDS_SINCE_1_3, "1.3"),
    missing={
        _D: "required; give at least {detection_modes: [{type: NODE_STATUS_POLLING}]}",
        _R: "required; {} means RECREATE with Senlin's defaults",
        _P: "required; it holds detection and recovery",
    },
)
