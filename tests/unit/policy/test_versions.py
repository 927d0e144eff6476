"""What each version has and defaults to, and what a document below 1.3 is told about 1.3's keys."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.policy.documents import STATUS, accepted, document, problems, url_mode

from yaffle.model.policy import Conditional, RecoveryMode
from yaffle.policy import DocumentSettings, parse, parse_document, schema

OLD = ("1.0", "1.1", "1.2")


@pytest.mark.parametrize("version", OLD)
def test_defaults_up_to_1_2_are_senlins(version: str) -> None:
    policy = accepted(document(version, modes=[url_mode()])).policy
    detection, recovery, url = policy.detection, policy.recovery, policy.detection.modes[0].url
    assert (detection.interval_s, detection.node_update_timeout_s) == (60, 300)
    assert detection.conditional is Conditional.ANY_FAILED
    assert (detection.rise, detection.fall) == (1, 1)
    assert (detection.confirm_status, detection.grace_ends_early) == (True, False)
    assert url is not None
    assert (url.retry_limit, url.retry_interval_s, url.timeout_s) == (3, 3, 1)
    assert (url.ssl_verify, url.conn_error_as_unhealthy, url.healthy_response) == (True, True, "")
    assert (recovery.node_delete_timeout_s, recovery.node_force_recreate) == (20, False)
    assert [(action.name, action.timeout_s) for action in recovery.actions] == [("RECREATE", 600)]


def test_defaults_of_1_3() -> None:
    policy = accepted(document("1.3", modes=[url_mode()])).policy
    detection, recovery, url = policy.detection, policy.recovery, policy.detection.modes[0].url
    assert (detection.interval_s, detection.node_update_timeout_s) == (10, 60)
    assert (detection.rise, detection.fall) == (2, 3)
    assert (detection.confirm_status, detection.grace_ends_early) == (False, True)
    assert url is not None
    assert (url.retry_limit, url.retry_interval_s, url.timeout_s) == (1, 3, 1)
    assert recovery.mode is RecoveryMode.RECOVER
    assert recovery.limits.domain is None
    retry = recovery.retry
    assert (retry.attempts, retry.backoff_s, retry.max_backoff_s) == (3, 60, 3600)
    assert retry.stable_after_s == 600


@pytest.mark.parametrize("interval", [1, 2, 10, 60, 600, 7200, 86400])
@pytest.mark.parametrize("version", [*OLD, "1.3"])
def test_a_default_never_makes_a_number_beside_it_unsafe(version: str, interval: int) -> None:
    parsed = accepted(
        document(version, modes=[STATUS, url_mode()], detection={"interval": interval})
    )
    if version == "1.3":
        assert parsed.warnings == ()


@pytest.mark.parametrize(
    ("written", "read"),
    [("1.1", "1.1"), ('"1.1"', "1.1"), ("1.10", "1.1"), ("1", "1.0"), ("1.3", "1.3")],
)
def test_a_version_may_be_a_number(written: str, read: str) -> None:
    body = "properties: {detection: {detection_modes: [{type: NODE_STATUS_POLLING}]}, recovery: {}}"
    parsed = parse(f"type: senlin.policy.health\nversion: {written}\n{body}\n")
    assert parsed.policy.version == read


def pool_mode(**options: object) -> dict[str, Any]:
    """LB_STATUS_POLLING with these options."""
    return {"type": "LB_STATUS_POLLING", "options": options}


ADDED: list[tuple[str, dict[str, Any]]] = [
    ("detection.rise", {"detection": {"rise": 2}}),
    ("detection.fall", {"detection": {"fall": 2}}),
    ("detection.reference_targets", {"detection": {"reference_targets": ["10.0.0.1:53"]}}),
    ("options.poll_url_timeout", {"modes": [url_mode(poll_url_timeout=2)]}),
    ("options.poll_url_keep_alive", {"modes": [url_mode(poll_url_keep_alive=True)]}),
    ("actions.0.timeout", {"actions": [{"name": "RECREATE", "timeout": 5}]}),
    (
        "actions.0.in_place",
        {"actions": [{"name": "w", "type": "MISTRAL_WORKFLOW", "in_place": True}]},
    ),
    ("recovery.mode", {"recovery": {"mode": "observe"}}),
    ("recovery.evidence", {"recovery": {"evidence": {}}}),
    ("recovery.snapshot", {"recovery": {"snapshot": {}}}),
    ("recovery.limits", {"recovery": {"limits": {"max_in_flight": 1}}}),
    ("recovery.retry", {"recovery": {"retry": {"attempts": 1}}}),
    ("recovery.fencing.0", {"recovery": {"fencing": ["HOST"]}}),
    ("actions.0.type", {"actions": [{"name": "w", "type": "COMMAND"}]}),
    ("actions.0.type", {"actions": [{"name": "w", "type": "HTTP"}]}),
    ("detection_modes.0.type", {"modes": [{"type": "LB_STATUS_POLLING"}]}),
    ("options.pool", {"modes": [pool_mode(pool="web")]}),
    ("options.balancer", {"modes": [pool_mode(balancer="edge")]}),
    ("detection_modes.1.type", {"modes": [STATUS, {"type": "LIFECYCLE_EVENTS"}]}),
]


@pytest.mark.parametrize(("path", "parts"), ADDED)
@pytest.mark.parametrize("version", OLD)
def test_what_1_3_added_needs_1_3(version: str, path: str, parts: dict[str, Any]) -> None:
    accepted(document("1.3", **parts))
    lines = problems(document(version, **parts))
    # An option of a mode that is as new is told beside its mode.
    assert len(lines) == (2 if ".pool" in path or ".balancer" in path else 1)
    assert any(f"{path}: " in line for line in lines)
    assert all(f"needs version 1.3 (this document says {version})" in line for line in lines)


def test_every_key_of_the_table_is_tried_above() -> None:
    tried = {path.split(".")[-1] for path, _ in ADDED}
    assert {where[-1] for where in schema.SINCE_1_3} <= tried


def test_the_old_form_ends_with_1_1() -> None:
    old = {"type": "NODE_STATUS_POLLING", "options": {"interval": 30}}
    for version in ("1.0", "1.1"):
        doc = document(version)
        doc["properties"]["detection"] = dict(old)
        policy = accepted(doc).policy
        assert policy.detection.interval_s == 30
        assert [mode.type for mode in policy.detection.modes] == ["NODE_STATUS_POLLING"]
    for version in ("1.2", "1.3"):
        doc = document(version)
        doc["properties"]["detection"] = dict(old)
        assert any("only in versions 1.0 and 1.1" in line for line in problems(doc))


def test_the_old_form_beside_the_new_one_is_refused() -> None:
    both = problems(document("1.0", detection={"type": "LIFECYCLE_EVENTS"}))
    assert both == (
        "detection.type: give either detection.type or detection.detection_modes, not both",
    )
    doc = document("1.0")
    options = {"interval": 30}
    doc["properties"]["detection"] = {"type": STATUS["type"], "options": options, "interval": 60}
    assert problems(doc) == (
        (
            "detection.options.interval:"
            " give either detection.interval or detection.options.interval, not both"
        ),
    )


@pytest.mark.parametrize("version", [*OLD, "1.3"])
def test_misspelt_option_is_taken_with_a_warning(version: str) -> None:
    modes = [url_mode(poll_url_conn_error_as_unheathy=False)]
    parsed = accepted(document(version, modes=modes))
    url = parsed.policy.detection.modes[0].url
    assert url is not None
    assert url.conn_error_as_unhealthy is False
    assert any("misspelt" in line for line in parsed.warnings)
    both = [url_mode(poll_url_conn_error_as_unheathy=False, poll_url_conn_error_as_unhealthy=True)]
    assert "keep the one spelt right" in problems(document(version, modes=both))[0]


def test_quoted_numbers_warn_in_1_3_only() -> None:
    detection = {"interval": "30", "node_update_timeout": "120"}
    recovery = {"node_force_recreate": "FALSE"}
    modes = [url_mode(poll_url_healthy_response=200)]
    assert not accepted(document("1.2", detection=detection, recovery=recovery)).warnings
    parsed = accepted(document("1.3", detection=detection, recovery=recovery, modes=modes))
    assert parsed.warnings == (
        (
            "detection.detection_modes.0.options.poll_url_healthy_response:"
            " 200 is a number; taken as text: quote it"
        ),
        "detection.interval: '30' is text; taken as 30: unquote it",
        "detection.node_update_timeout: '120' is text; taken as 120: unquote it",
        "recovery.node_force_recreate: 'FALSE' is text; taken as false: unquote it",
    )


@pytest.mark.parametrize("value", ["yes", "1", 1, 0, None, [], "on"])
def test_booleans_are_booleans(value: object) -> None:
    (line,) = problems(document("1.2", recovery={"node_force_recreate": value}))
    assert "is neither true nor false" in line


def test_what_has_no_effect_is_told() -> None:
    modes = [{"type": "NODE_STATUS_POLLING", "options": {"poll_url_retry_limit": 3}}]
    parsed = accepted(document("1.2", modes=modes, recovery={"fencing": ["COMPUTE", "COMPUTE"]}))
    assert parsed.warnings == (
        (
            "detection.detection_modes.0.options: no effect: only NODE_STATUS_POLL_URL and"
            " LB_STATUS_POLLING have options"
        ),
        "recovery.fencing.1: stands twice",
    )


def test_the_shortest_interval_is_a_setting() -> None:
    doc = document("1.2", detection={"interval": 0.2})
    assert "give 1 to" in problems(doc)[0]
    parsed = parse_document(doc, settings=DocumentSettings(interval_min_s=0.1))
    assert parsed.policy.detection.interval_s == 0.2


@pytest.mark.parametrize("doc", [{"type": "senlin.policy.affinity", "version": "1.0"}])
def test_other_policy_types_are_refused_by_name(doc: dict[str, Any]) -> None:
    assert problems(doc)[0].startswith("type: unknown policy type 'senlin.policy.affinity'")
