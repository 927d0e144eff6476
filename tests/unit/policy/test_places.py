"""Line and column are exact, and one look shows every fault."""

from __future__ import annotations

import pytest

from yaffle.errors import InvalidSpec
from yaffle.policy import parse

TEXT = """\
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 0
    fal: 3
    detection_modes:
      - type: NODE_STATUS_POLLING
      - type: NODE_STATUS_POLL_URL
        options: {poll_url: "http://{nodeip}/", poll_url_healthy_response: "(ok"}
      - options: {}
  recovery:
    node_force_recreate: maybe
    fencing: [COMPUTE, HOSTS]
    actions:
      - {name: REBOOT, params: {type: medium}, timeout: 120}
      - {name: run, type: MISTRAL_WORKFLOW, params: {id: "{{ node.uuid }}"}}
      - name: RECREATE
        in_place: true
    limits:
      max_unhealthy: lots
"""

WANTED = [
    ("5:15", "detection.interval", "0 is out of range; give 1 to 86400 seconds"),
    ("6:5", "detection.fal", "unknown key (did you mean fall?)"),
    ("10:29", "detection.detection_modes.1.options.poll_url", "unknown expansion {nodeip}"),
    ("10:76", "detection.detection_modes.1.options.poll_url_healthy_response", "not a regular"),
    ("11:9", "detection.detection_modes.2.type", "required"),
    ("13:26", "recovery.node_force_recreate", "'maybe' is neither true nor false"),
    ("14:24", "recovery.fencing.1", "'HOSTS' is not known (did you mean HOST?)"),
    ("16:39", "recovery.actions.0.params.type", "'medium' is not allowed"),
    ("17:58", "recovery.actions.1.params.id", "unknown name 'node.uuid'"),
    ("19:9", "recovery.actions.2.in_place", "only for workflows"),
    ("21:22", "recovery.limits.max_unhealthy", "'lots' is not a number of nodes (3)"),
]


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidSpec) as caught:
        parse(text)
    return caught.value.problems


def test_every_fault_at_once_with_line_and_column() -> None:
    found = faults(TEXT)
    assert len(found) == len(WANTED), "\n".join(found)
    for line, (place, path, text) in zip(found, WANTED, strict=True):
        assert line.startswith(f"policy.yaml:{place} {path}: {text}"), line


def test_faults_of_yaml_and_of_schema_come_together() -> None:
    found = faults(TEXT.replace("    interval: 0\n", "    interval: 0\n    interval: 9\n"))
    assert len(found) == len(WANTED) + 1
    assert found[1] == (
        "policy.yaml:6:5 detection.interval: the key stands twice, first in line 5; keep one"
    )


def test_hazards_point_at_the_number_or_at_what_is_around_it() -> None:
    text = """\
type: senlin.policy.health
version: 1.3
properties:
  detection:
    interval: 30
    node_update_timeout: 60
    detection_modes: [{type: NODE_STATUS_POLLING}]
  recovery:
    retry: {max_backoff: 5}
"""
    grace, backoff = faults(text)
    assert grace.startswith("policy.yaml:6:26 detection.node_update_timeout: a changed node")
    assert backoff.startswith("policy.yaml:9:26 recovery.retry.max_backoff: 5 s is less than")


def test_old_form_points_where_its_author_wrote() -> None:
    text = """\
type: senlin.policy.health
version: 1.0
properties:
  detection:
    type: NODE_STATUS_POLL_URL
    options:
      interval: -3
      poll_url: "http://{x}/"
      poll_url_conn_error_as_unhealty: 5
  recovery: {}
"""
    interval, url, misspelt = faults(text)
    assert interval.startswith("policy.yaml:7:17 detection.options.interval: -3 is out")
    assert url.startswith("policy.yaml:8:17 detection.options.poll_url: unknown expansion {x}")
    assert misspelt.startswith(
        "policy.yaml:9:40 detection.options.poll_url_conn_error_as_unhealty: 5 is neither true"
    )


def test_source_names_the_document() -> None:
    with pytest.raises(InvalidSpec, match=r"^web\.yml:1:1: has to be a mapping"):
        parse("- a", source="web.yml")


def test_an_unreadable_value_is_blamed_once() -> None:
    unquoted = TEXT.replace('"http://{nodeip}/"', "{{ node.id }}")
    (line,) = [line for line in faults(unquoted) if "options.poll_url:" in line]
    assert "a template has to be quoted" in line


def test_duplicate_modes_are_told_beside_other_faults() -> None:
    twice = TEXT.replace("      - options: {}\n", "      - type: NODE_STATUS_POLLING\n")
    assert any(
        line.startswith(
            "policy.yaml:11:9 detection.detection_modes.2: the same as detection_modes.0"
        )
        for line in faults(twice)
    )
