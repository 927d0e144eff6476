"""Combinations of numbers that are each fine and together unsafe, as one table.

Refused in 1.3, where every number was written for Yaffle; a warning for older documents, whose
users have them at work (design/interfaces). A hazard that is a matter of consent is a warning always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from yaffle.model.counts import count
from yaffle.model.policy import DetectionMode, HealthPolicy, UrlOptions
from yaffle.model.timing import url_check_s
from yaffle.policy.build import threshold_text
from yaffle.policy.faults import Path
from yaffle.policy.rules import DETECTION, MODES, RECOVERY

Finding = tuple[Path, str]


class Level(StrEnum):
    """The consequence of a finding for a 1.3 document; older ones are never refused."""

    REFUSED = "refused"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """A row of the lint: a code, how bad it is, and a question without side effects."""

    code: str
    level: Level
    find: Callable[[HealthPolicy], Iterator[Finding]]


def _urls(policy: HealthPolicy) -> Iterator[tuple[int, DetectionMode, UrlOptions]]:
    for place, mode in enumerate(policy.detection.modes):
        if mode.url is not None:
            yield place, mode, mode.url


def _timeout_reaches_interval(policy: HealthPolicy) -> Iterator[Finding]:
    interval = policy.detection.interval_s
    for place, _, url in _urls(policy):
        if url.timeout_s >= interval:
            text = (
                f"one attempt may take {url.timeout_s:g} s and checks come every {interval:g} s;"
                " lower the timeout or raise interval"
            )
            yield (*MODES, place, "options", "poll_url_timeout"), text


def _retries_exceed_interval(policy: HealthPolicy) -> Iterator[Finding]:
    interval = policy.detection.interval_s
    for place, _, url in _urls(policy):
        took = url_check_s(url)
        if url.timeout_s < interval < took:
            text = (
                f"{url.retry_limit} attempts of {url.timeout_s:g} s, {url.retry_interval_s:g} s apart,"
                f" take up to {took:g} s and checks come every {interval:g} s;"
                " lower the limit or raise interval"
            )
            yield (*MODES, place, "options", "poll_url_retry_limit"), text


def _grace_short(policy: HealthPolicy) -> Iterator[Finding]:
    detection = policy.detection
    needed = detection.interval_s * detection.fall
    if detection.node_update_timeout_s < needed:
        text = (
            f"a changed node is left alone for {detection.node_update_timeout_s:g} s, less than"
            f" {count(detection.fall, 'check')} of {detection.interval_s:g} s; give at least {needed:g}"
        )
        yield (*DETECTION, "node_update_timeout"), text


def _in_flight_over_threshold(policy: HealthPolicy) -> Iterator[Finding]:
    limits = policy.recovery.limits
    threshold = limits.max_unhealthy.count
    # The guard never goes below one node: threshold = max(1, …) (design/failure#guards).
    if threshold is not None and limits.max_in_flight > max(1, threshold):
        text = (
            f"{limits.max_in_flight} recoveries at once, but more than {threshold} unhealthy nodes stop"
            " all; lower it to max_unhealthy"
        )
        yield (*RECOVERY, "limits", "max_in_flight"), text


def _cooldown_short(policy: HealthPolicy) -> Iterator[Finding]:
    backoff, interval = policy.recovery.retry.backoff_s, policy.detection.interval_s
    if backoff < interval:
        text = (
            f"the next attempt may come after {backoff:g} s, before the next check"
            f" ({interval:g} s) has seen the last one's result; give at least {interval:g}"
        )
        yield (*RECOVERY, "retry", "backoff"), text


def _backoff_order(policy: HealthPolicy) -> Iterator[Finding]:
    retry = policy.recovery.retry
    if retry.max_backoff_s < retry.backoff_s:
        text = f"{retry.max_backoff_s:g} s is less than backoff ({retry.backoff_s:g} s)"
        yield (*RECOVERY, "retry", "max_backoff"), text


def _stable_short(policy: HealthPolicy) -> Iterator[Finding]:
    detection, stable = policy.detection, policy.recovery.retry.stable_after_s
    needed = detection.interval_s * detection.rise
    if stable < needed:
        text = (
            f"attempts would be forgotten after {stable:g} s, before {count(detection.rise, 'check')} of"
            f" {detection.interval_s:g} s {'has' if detection.rise == 1 else 'have'} passed:"
            f" a node could be recovered for ever; give at least {needed:g}"
        )
        yield (*RECOVERY, "retry", "stable_after"), text


def _restore_without_take(policy: HealthPolicy) -> Iterator[Finding]:
    snapshot = policy.recovery.snapshot
    if snapshot is not None and snapshot.restore and not snapshot.take:
        yield (*RECOVERY, "snapshot", "restore"), "there is nothing to restore without take: true"


def _force_unfenced(policy: HealthPolicy) -> Iterator[Finding]:
    recovery = policy.recovery
    if recovery.node_force_recreate and not recovery.fencing:
        text = (
            "without fencing this is your consent to two copies of a node: a new one is built even"
            f" if the old one is not proved gone after {recovery.node_delete_timeout_s:g} s;"
            " add fencing: [COMPUTE]"
        )
        yield (*RECOVERY, "node_force_recreate"), text


def _no_storm_limit(policy: HealthPolicy) -> Iterator[Finding]:
    threshold = policy.recovery.limits.max_unhealthy
    if threshold.percent is not None and threshold.percent >= 100:
        text = f"at {threshold_text(threshold)} the storm limit never holds anything"
        yield (*RECOVERY, "limits", "max_unhealthy"), text


def _hair_trigger(policy: HealthPolicy) -> Iterator[Finding]:
    detection, first = policy.detection, policy.recovery.actions[0]
    if detection.fall > 1 or first.name != "RECREATE":
        return
    for place, _, url in _urls(policy):
        if url.conn_error_as_unhealthy:
            text = (
                f"one failed check ({url.retry_limit} attempts within {url_check_s(url):g} s)"
                " gets the node recreated; version 1.3 has fall to ask more than once"
            )
            yield (*MODES, place, "options", "poll_url_conn_error_as_unhealthy"), text


HAZARDS: Final[tuple[Hazard, ...]] = tuple(
    Hazard(code=code, level=level, find=find)
    for code, level, find in (
        ("timeout-reaches-interval", Level.REFUSED, _timeout_reaches_interval),
        ("retries-exceed-interval", Level.REFUSED, _retries_exceed_interval),
        ("grace-short", Level.REFUSED, _grace_short),
        ("in-flight-over-threshold", Level.REFUSED, _in_flight_over_threshold),
        ("cooldown-short", Level.REFUSED, _cooldown_short),
        ("backoff-order", Level.REFUSED, _backoff_order),
        ("stable-short", Level.REFUSED, _stable_short),
        ("restore-without-take", Level.REFUSED, _restore_without_take),
        ("force-recreate-unfenced", Level.WARNING, _force_unfenced),
        ("no-storm-limit", Level.WARNING, _no_storm_limit),
        ("hair-trigger", Level.INFO, _hair_trigger),
    )
)


def is_refused(hazard: Hazard, version: str) -> bool:
    """Whether a finding of `hazard` refuses a document of that version."""
    return hazard.level is Level.REFUSED and version == "1.3"
