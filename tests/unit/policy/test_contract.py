"""Each row of contracts/health-policy#documents with our answer, and defects that a document shows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.policy.documents import STATUS, URL, accepted, document, problems, url_mode

from yaffle.model.policy import FencingKind
from yaffle.policy import parse_document

OLD = "1.2"
EVENTS = {"type": "LIFECYCLE_EVENTS"}


def without(doc: dict[str, Any], *path: str) -> dict[str, Any]:
    inner = doc
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return doc


ACCEPTED = [
    pytest.param(document(OLD, actions=[{"name": "REBOOT"}, {"name": "REBUILD"}]), id="2-actions"),
    pytest.param(document(OLD, actions=[]), id="0-actions"),
    pytest.param(document(OLD, recovery={}), id="actions-absent"),
    pytest.param(document(OLD, detection={"interval": 4}), id="interval-4"),
    pytest.param(document(OLD, detection={"interval": "30"}), id="interval-text"),
    pytest.param(
        document(OLD, modes=[url_mode(), url_mode(poll_url_healthy_response="ok")]),
        id="two-different-urls",
    ),
    pytest.param(document("1.3", modes=[EVENTS, STATUS]), id="events-combined-from-1.3"),
    pytest.param(document("1.3"), id="version-1.3"),
    pytest.param(
        document(OLD, modes=[url_mode(poll_url_conn_error_as_unhealty=True)]), id="seed-typo"
    ),
    pytest.param(
        document(OLD, modes=[url_mode(poll_url_conn_error_as_unheathy=False)]), id="seed-typo-2"
    ),
    pytest.param(document(OLD, modes=[{"type": "HYPERVISOR_STATUS_POLLING"}]), id="hypervisor"),
]


@pytest.mark.parametrize("doc", ACCEPTED)
def test_accepted(doc: dict[str, Any]) -> None:
    assert accepted(doc).policy.detection.modes


REFUSED = [
    pytest.param(
        document(OLD, detection={"interval": -1}),
        "detection.interval: -1 is out of range",
        id="interval--1",
    ),
    pytest.param(
        document(OLD, detection={"interval": "abc"}),
        "detection.interval: 'abc' is not a number",
        id="interval-abc",
    ),
    pytest.param(
        document(OLD, modes=[EVENTS, STATUS]),
        "detection_modes.0.type: LIFECYCLE_EVENTS beside other modes needs version 1.3",
        id="events-combined",
    ),
    pytest.param(
        document(OLD, modes=[STATUS, STATUS]),
        "detection_modes.1: the same as detection_modes.0",
        id="duplicate",
    ),
    pytest.param(
        document(OLD, modes=[url_mode(), url_mode(poll_url_retry_limit=3)]),
        "detection_modes.1: the same as detection_modes.0",
        id="duplicate-by-default",
    ),
    pytest.param(
        document(OLD, modes=[]), "detection.detection_modes: empty or absent", id="modes-empty"
    ),
    pytest.param(
        without(document(OLD), "properties", "detection", "detection_modes"),
        "detection.detection_modes: empty or absent",
        id="modes-absent",
    ),
    pytest.param({**document(OLD), "properties": {}}, "detection: required", id="properties-empty"),
    pytest.param(
        {**document(OLD), "properties": {}}, "recovery: required", id="properties-empty-2"
    ),
    pytest.param(
        document(OLD, modes=[{"type": "NODE_STATUS_POLL_URL"}]),
        "options.poll_url: required",
        id="no-options",
    ),
    pytest.param(
        document(OLD, modes=[{**URL, "options": {}}]), "options.poll_url: required", id="no-url"
    ),
    pytest.param(
        document(OLD, modes=[{**URL, "options": {"poll_url": ""}}]),
        "options.poll_url: required",
        id="empty-url",
    ),
    pytest.param(
        document(OLD, modes=[url_mode(poll_url="ftp://x/")]),
        "options.poll_url: 'ftp://x/' is not http://",
        id="ftp",
    ),
    pytest.param(
        document(OLD, modes=[url_mode(poll_url_retry_limit=-1)]),
        "poll_url_retry_limit: -1 is out of range",
        id="retry-limit--1",
    ),
    pytest.param(
        document(OLD, modes=[url_mode(poll_url_retry_interval=-5)]),
        "poll_url_retry_interval: -5 is out of range",
        id="retry-interval--5",
    ),
    pytest.param(
        document(OLD, modes=[{"type": "NODE_STATUS_POLLNG"}]),
        "did you mean NODE_STATUS_POLLING?",
        id="mode-unknown",
    ),
    pytest.param(
        document(OLD, detection={"recovery_conditional": "SOME"}),
        "known: ALL_FAILED, ANY_FAILED",
        id="conditional-unknown",
    ),
    pytest.param(
        document(OLD, recovery={"fencing": ["STORAGE"]}),
        "recovery.fencing.0: 'STORAGE' is not known",
        id="fencing-unknown",
    ),
    pytest.param(
        document(OLD, actions=[{"name": "REBOT"}]),
        "recovery.actions.0.name: unknown action 'REBOT' (did you mean REBOOT?)",
        id="action-unknown",
    ),
    pytest.param(
        document(OLD, detection={"intervals": 5}),
        "detection.intervals: unknown key (did you mean interval?)",
        id="key-unknown",
    ),
    pytest.param(
        document(OLD, actions=[{"name": "REBOOT", "params": {"type": "weird"}}]),
        "recovery.actions.0.params.type: 'weird' is not allowed; choose from SOFT, HARD",
        id="reboot-weird",
    ),
    pytest.param(
        document(OLD, recovery={"node_delete_timeout": -1}),
        "recovery.node_delete_timeout: -1 is out of range",
        id="delete-timeout--1",
    ),
    pytest.param(
        document("1.4"),
        "version: unknown version 1.4; known versions: 1.0, 1.1, 1.2, 1.3",
        id="version-1.4",
    ),
    pytest.param(
        document(OLD, modes=[{"type": "LB_STATUS_POLLING"}]),
        "LB_STATUS_POLLING needs version 1.3",
        id="lb",
    ),
]


@pytest.mark.parametrize(("doc", "said"), REFUSED)
def test_refused(doc: dict[str, Any], said: str) -> None:
    assert any(said in line for line in problems(doc)), problems(doc)


def test_retry_budget_beyond_the_interval_warns_old_documents_and_refuses_1_3() -> None:
    modes = [url_mode(poll_url_retry_limit=100, poll_url_retry_interval=60)]
    detection = {"interval": 30, "node_update_timeout": 300}
    old = accepted(document(OLD, modes=modes, detection=detection))
    assert any("[retries-exceed-interval]" in line for line in old.warnings)
    (line,) = problems(document("1.3", modes=modes, detection={**detection, "fall": 1}))
    assert "100 attempts of 6 s, 60 s apart, take up to 6540 s and checks come every 30 s" in line


# --- the defects, as far as a document can show them ---


def test_defect_2_fencing_is_kept() -> None:
    parsed = accepted(document("1.0", recovery={"fencing": ["COMPUTE"]}))
    assert parsed.policy.recovery.fencing == (FencingKind.COMPUTE,)
    assert parsed.arithmetic.fence_s == 34 + 24


def test_defect_3_params_of_an_action_are_kept() -> None:
    parsed = accepted(document(OLD, actions=[{"name": "REBOOT", "params": {"type": "soft"}}]))
    assert parsed.policy.recovery.actions[0].params == {"type": "SOFT"}


def test_defect_5_a_list_is_a_ladder_and_rungs_may_repeat() -> None:
    names = ["REBOOT", "REBOOT", "RECREATE"]
    parsed = accepted(document("1.0", actions=[{"name": name} for name in names]))
    assert [action.name for action in parsed.policy.recovery.actions] == names


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3"])
def test_defect_7_every_document_gets_guards(version: str) -> None:
    recovery = parse_document(document(version)).policy.recovery
    assert recovery.limits.max_unhealthy.percent == 40
    assert recovery.limits.max_in_flight == 2
    assert recovery.limits.when_exceeded == "hold"
    assert (recovery.retry.attempts, recovery.retry.backoff_s) == (3, 60)


def test_defect_10_a_mistake_is_never_a_server_error() -> None:
    for doc in (None, [], "", 7, {}, {"type": []}, {"type": "senlin.policy.health", "version": {}}):
        assert problems(doc)
