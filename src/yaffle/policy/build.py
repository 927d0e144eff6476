"""A valid document to a `HealthPolicy` with every default applied, and back to a full document.

Documents up to 1.2 get Senlin's numbers (contracts/health-policy#schema) and our guards; 1.3 gets those
of design/policies. A default yields where the number written beside it would make it unsafe: grace covers
`fall` checks, a cool-down covers one interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeVar

from yaffle.model.ids import ModeKey
from yaffle.model.policy import (
    Conditional,
    Detection,
    DetectionMode,
    Evidence,
    HealthPolicy,
    Limits,
    ModeType,
    Recovery,
    RecoveryAction,
    RecoveryMode,
    Retry,
    RungKind,
    Snapshot,
    Threshold,
    UrlOptions,
    WhenExceeded,
)
from yaffle.policy import operations as ops
from yaffle.policy import schema
from yaffle.policy.settings import POLICY_TYPE

ACTION_TIMEOUT_S: Final = 600.0
NODE_DELETE_TIMEOUT_S: Final = 20.0
MAX_IN_FLIGHT: Final = 2
SWEEP_S: Final = 600.0
SWEEP_INTERVALS: Final = 10
MAX_UNHEALTHY: Final = Threshold(percent=40.0)

T = TypeVar("T")


def build(
    spec: schema.DocumentSpec, version: str, operations: ops.Operations | None
) -> HealthPolicy:
    """Return the policy that `spec` means."""
    newest = version == "1.3"
    detection = _detection(spec.properties.detection, newest=newest)
    return HealthPolicy(
        version=version,
        detection=detection,
        recovery=_recovery(spec.properties.recovery, detection, operations),
        reference_targets=tuple(spec.properties.detection.reference_targets or ()),
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _detection(spec: schema.DetectionSpec, *, newest: bool) -> Detection:
    interval = float(_or(spec.interval, 10.0 if newest else 60.0))
    fall = _or(spec.fall, 3 if newest else 1)
    grace = max(60.0, interval * fall) if newest else 300.0
    return Detection(
        interval_s=interval,
        node_update_timeout_s=float(_or(spec.node_update_timeout, grace)),
        grace_ends_early=newest,
        conditional=_or(spec.recovery_conditional, Conditional.ANY_FAILED),
        rise=_or(spec.rise, 2 if newest else 1),
        fall=fall,
        confirm_status=not newest,
        modes=_modes(spec.detection_modes or (), interval, newest=newest),
    )


def _modes(
    specs: Sequence[schema.ModeSpec], interval: float, *, newest: bool
) -> tuple[DetectionMode, ...]:
    polled = any(spec.type is ModeType.NODE_STATUS_POLLING for spec in specs)
    sweep_s = interval if polled else max(SWEEP_S, SWEEP_INTERVALS * interval)
    modes = (_mode(place, mode, interval, newest=newest) for place, mode in enumerate(specs))
    return tuple(
        replace(mode, sweep_s=sweep_s) if mode.type is ModeType.LIFECYCLE_EVENTS else mode
        for mode in modes
    )


def _mode(place: int, spec: schema.ModeSpec, interval: float, *, newest: bool) -> DetectionMode:
    url, options = None, spec.options or schema.OptionsSpec()
    if spec.type is ModeType.NODE_STATUS_POLL_URL:
        url = _url(options, interval, newest=newest)
    return DetectionMode(
        key=ModeKey(f"{place}:{spec.type}"), type=spec.type, url=url, options=_named(spec, options)
    )


def _named(spec: schema.ModeSpec, options: schema.OptionsSpec) -> Mapping[str, object]:
    """Return which pool of which balancer, as far as the document says."""
    if spec.type is not ModeType.LB_STATUS_POLLING:
        return MappingProxyType({})
    names = {"pool": options.pool, "balancer": options.balancer}
    return MappingProxyType({key: name for key, name in names.items() if name is not None})


def _url(spec: schema.OptionsSpec, interval: float, *, newest: bool) -> UrlOptions:
    retry_interval = float(_or(spec.poll_url_retry_interval, 3.0))
    # Senlin's rule; in 1.3 it leaves room in a short interval.
    timeout = max(0.1 * retry_interval, 1.0)
    timeout = min(timeout, interval / 2) if newest else timeout
    return UrlOptions(
        poll_url=spec.poll_url or "",
        ssl_verify=_or(spec.poll_url_ssl_verify, True),
        conn_error_as_unhealthy=_or(spec.poll_url_conn_error_as_unhealthy, True),
        healthy_response=_or(spec.poll_url_healthy_response, ""),
        retry_limit=_or(spec.poll_url_retry_limit, 1 if newest else 3),
        retry_interval_s=retry_interval,
        timeout_s=float(_or(spec.poll_url_timeout, timeout)),
        keep_alive=bool(spec.poll_url_keep_alive),
    )


def _recovery(
    spec: schema.RecoverySpec, detection: Detection, operations: ops.Operations | None
) -> Recovery:
    actions = spec.actions or [schema.ActionSpec(name=ops.RECREATE)]
    return Recovery(
        mode=_or(spec.mode, RecoveryMode.RECOVER),
        actions=tuple(_action(action, operations) for action in actions),
        fencing=tuple(dict.fromkeys(spec.fencing or ())),
        node_delete_timeout_s=float(_or(spec.node_delete_timeout, NODE_DELETE_TIMEOUT_S)),
        node_force_recreate=bool(spec.node_force_recreate),
        limits=_limits(spec.limits or schema.LimitsSpec()),
        retry=_retry(spec.retry or schema.RetrySpec(), detection),
        evidence=_evidence(spec.evidence),
        snapshot=_snapshot(spec.snapshot),
    )


def _action(spec: schema.ActionSpec, operations: ops.Operations | None) -> RecoveryAction:
    kind = _or(spec.type, RungKind.BUILTIN)
    params: dict[str, object] = dict(spec.params or {})
    in_place = bool(spec.in_place)
    if kind is RungKind.BUILTIN:
        params = ops.canonical_params(spec.name, params, operations)
        in_place = ops.is_in_place(spec.name, operations)
    return RecoveryAction(
        name=spec.name,
        kind=kind,
        params=MappingProxyType(params),
        timeout_s=float(_or(spec.timeout, ACTION_TIMEOUT_S)),
        in_place=in_place,
    )


def _limits(spec: schema.LimitsSpec) -> Limits:
    threshold = _or(spec.max_unhealthy, MAX_UNHEALTHY)
    at_once = MAX_IN_FLIGHT
    if threshold.count is not None:
        at_once = max(1, min(at_once, threshold.count))
    return Limits(
        max_unhealthy=threshold,
        when_exceeded=_or(spec.when_exceeded, WhenExceeded.HOLD),
        max_in_flight=_or(spec.max_in_flight, at_once),
        domain=spec.domain,
    )


def _retry(spec: schema.RetrySpec, detection: Detection) -> Retry:
    # A default never undercuts a number that stands in the document.
    backoff = float(_or(spec.backoff, max(60.0, detection.interval_s)))
    stable = max(600.0, detection.interval_s * detection.rise)
    return Retry(
        attempts=_or(spec.attempts, 3),
        backoff_s=backoff,
        max_backoff_s=float(_or(spec.max_backoff, max(3600.0, backoff))),
        stable_after_s=float(_or(spec.stable_after, stable)),
    )


def _evidence(spec: schema.EvidenceSpec | None) -> Evidence | None:
    if spec is None:
        return None
    return Evidence(
        console_log=_or(spec.console_log, True), timeout_s=float(_or(spec.timeout, 30.0))
    )


def _snapshot(spec: schema.SnapshotSpec | None) -> Snapshot | None:
    if spec is None:
        return None
    take = _or(spec.take, True)
    return Snapshot(
        take=take, restore=_or(spec.restore, take), timeout_s=float(_or(spec.timeout, 300.0))
    )


# --- Back to a document ---


def as_document(policy: HealthPolicy, title: Mapping[str, str | None]) -> dict[str, object]:
    """Return the full document in Senlin's property names; parsing it again gives the same policy.

    `title` holds name and description where the author gave them.
    """
    newest = policy.version == "1.3"
    head = {key: text for key, text in title.items() if text is not None}
    properties = {
        "detection": _detection_out(policy, newest=newest),
        "recovery": _recovery_out(policy.recovery, newest=newest),
    }
    return {"type": POLICY_TYPE, "version": policy.version, **head, "properties": properties}


def _detection_out(policy: HealthPolicy, *, newest: bool) -> dict[str, object]:
    detection = policy.detection
    out: dict[str, object] = {
        "interval": _plain(detection.interval_s),
        "node_update_timeout": _plain(detection.node_update_timeout_s),
        "recovery_conditional": detection.conditional.value,
        "detection_modes": [_mode_out(mode, newest=newest) for mode in detection.modes],
    }
    if newest:
        out |= {"rise": detection.rise, "fall": detection.fall}
        out["reference_targets"] = list(policy.reference_targets)
    return out


def _mode_out(mode: DetectionMode, *, newest: bool) -> dict[str, object]:
    if mode.url is None:
        return {
            "type": mode.type.value,
            **({"options": dict(mode.options)} if mode.options else {}),
        }
    url = mode.url
    options: dict[str, object] = {
        "poll_url": url.poll_url,
        "poll_url_ssl_verify": url.ssl_verify,
        "poll_url_conn_error_as_unhealthy": url.conn_error_as_unhealthy,
        "poll_url_healthy_response": url.healthy_response,
        "poll_url_retry_limit": url.retry_limit,
        "poll_url_retry_interval": _plain(url.retry_interval_s),
    }
    if newest:
        options["poll_url_timeout"] = _plain(url.timeout_s)
        options["poll_url_keep_alive"] = url.keep_alive
    return {"type": mode.type.value, "options": options}


def _recovery_out(recovery: Recovery, *, newest: bool) -> dict[str, object]:
    out: dict[str, object] = {
        "actions": [_action_out(action, newest=newest) for action in recovery.actions],
        "fencing": [kind.value for kind in recovery.fencing],
        "node_delete_timeout": _plain(recovery.node_delete_timeout_s),
        "node_force_recreate": recovery.node_force_recreate,
    }
    return out | _additions_out(recovery) if newest else out


def _action_out(action: RecoveryAction, *, newest: bool) -> dict[str, object]:
    out: dict[str, object] = {"name": action.name}
    if action.kind is not RungKind.BUILTIN:
        out["type"] = action.kind.value
        if newest:
            out["in_place"] = action.in_place
    if action.params:
        out["params"] = dict(action.params)
    if newest:
        out["timeout"] = _plain(action.timeout_s)
    return out


def _additions_out(recovery: Recovery) -> dict[str, object]:
    """Return what 1.3 adds to `recovery`."""
    limits, retry = recovery.limits, recovery.retry
    out: dict[str, object] = {
        "mode": recovery.mode.value,
        "limits": {
            "max_unhealthy": threshold_text(limits.max_unhealthy),
            "when_exceeded": limits.when_exceeded.value,
            "max_in_flight": limits.max_in_flight,
            **({"domain": limits.domain} if limits.domain else {}),
        },
        "retry": {
            "attempts": retry.attempts,
            "backoff": _plain(retry.backoff_s),
            "max_backoff": _plain(retry.max_backoff_s),
            "stable_after": _plain(retry.stable_after_s),
        },
    }
    if (evidence := recovery.evidence) is not None:
        timeout = _plain(evidence.timeout_s)
        out["evidence"] = {"console_log": evidence.console_log, "timeout": timeout}
    if (snapshot := recovery.snapshot) is not None:
        timeout = _plain(snapshot.timeout_s)
        out["snapshot"] = {"take": snapshot.take, "restore": snapshot.restore, "timeout": timeout}
    return out


def threshold_text(threshold: Threshold) -> int | str:
    """Return `40%` or `3`."""
    if threshold.count is not None:
        return threshold.count
    return f"{_plain(threshold.percent or 0.0)}%"


def _plain(number: float) -> int | float:
    """Whole seconds leave as whole numbers: Senlin's clients expect integers."""
    return int(number) if number == int(number) else number
