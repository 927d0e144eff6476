"""The documents that the two seed texts print, as they stand there, and the one of version 1.3.

Where a seed writes `...`, the least that completes the document stands instead: `recovery: {}`, or a
status polling mode. The user guide lost its indentation on the way to us, so it is here twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from yaffle.errors import InvalidSpec
from yaffle.model.policy import FencingKind, ModeType, RungKind, Threshold
from yaffle.policy import ParsedPolicy, parse, parse_document

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> ParsedPolicy:
    return parse((SAMPLES / name).read_text(), source=name)


def refused(name: str) -> tuple[str, ...]:
    with pytest.raises(InvalidSpec) as caught:
        sample(name)
    return caught.value.problems


ACCEPTED = sorted(
    path.name
    for path in SAMPLES.glob("*.yaml")
    if path.name not in ("seed1_actions_unquoted.yaml", "seed2_sample_flattened.yaml")
)


@pytest.mark.parametrize("name", ACCEPTED)
def test_sample_is_accepted_and_its_full_document_means_the_same(name: str) -> None:
    parsed = sample(name)
    assert parse_document(parsed.document).policy == parsed.policy


def test_proactive_node_status_polling() -> None:
    policy = sample("seed1_status_polling.yaml").policy
    assert policy.version == "1.1"
    assert policy.detection.interval_s == 120
    assert [mode.type for mode in policy.detection.modes] == [ModeType.NODE_STATUS_POLLING]
    assert [action.name for action in policy.recovery.actions] == ["RECREATE"]


def test_polling_node_url_with_its_misspelt_option() -> None:
    parsed = sample("seed1_poll_url.yaml")
    url = parsed.policy.detection.modes[0].url
    assert url is not None
    assert url.poll_url == "http://{nodename}/healthstatus"
    assert url.healthy_response == "passing"
    assert url.conn_error_as_unhealthy is True
    assert (url.retry_limit, url.retry_interval_s, url.timeout_s) == (3, 2, 1)
    assert parsed.warnings[0] == (
        "seed1_poll_url.yaml:11:13"
        " detection.detection_modes.0.options.poll_url_conn_error_as_unhealty:"
        " misspelt; taken as poll_url_conn_error_as_unhealthy"
    )


def test_listening_to_event_notifications() -> None:
    parsed = sample("seed1_lifecycle_events.yaml")
    assert [mode.type for mode in parsed.policy.detection.modes] == [ModeType.LIFECYCLE_EVENTS]
    assert parsed.policy.detection.interval_s == 60
    assert parsed.arithmetic.total_s is None


def test_recovery_actions_unquoted_template_gets_the_hint() -> None:
    assert refused("seed1_actions_unquoted.yaml") == (
        (
            "seed1_actions_unquoted.yaml:16:20 recovery.actions.2.params.node_id:"
            ' a template has to be quoted in YAML: write "{{ node.physical_id }}"'
        ),
    )


def test_recovery_actions_quoted() -> None:
    actions = sample("seed1_actions_quoted.yaml").policy.recovery.actions
    assert [(action.name, action.kind, action.in_place) for action in actions] == [
        ("REBOOT", RungKind.BUILTIN, True),
        ("REBUILD", RungKind.BUILTIN, True),
        ("my_evacuation_workflow", RungKind.MISTRAL_WORKFLOW, False),
    ]
    assert actions[0].params == {"type": "SOFT"}
    assert actions[2].params == {"node_id": "{{ node.physicalid }}"}


def test_user_guide_sample() -> None:
    parsed = sample("seed2_sample.yaml")
    assert parsed.description == "A policy for maintaining node health from a cluster."
    assert parsed.policy.detection.interval_s == 600
    assert any("[grace-short]" in warning for warning in parsed.warnings)


def test_user_guide_sample_without_its_indentation_says_so() -> None:
    found = refused("seed2_sample_flattened.yaml")
    assert any(
        line.startswith("seed2_sample_flattened.yaml:6:1 detection: unknown key here; it belongs")
        and "under properties: check the indentation" in line
        for line in found
    )


def test_version_1_3() -> None:
    parsed = sample("version_1_3.yaml")
    detection, recovery = parsed.policy.detection, parsed.policy.recovery
    assert parsed.warnings == ()
    assert (detection.rise, detection.fall, detection.grace_ends_early) == (2, 3, True)
    assert len(detection.modes) == 4
    assert recovery.fencing == (FencingKind.COMPUTE,)
    assert [action.timeout_s for action in recovery.actions] == [120, 600, 1800, 600]
    assert recovery.limits.max_unhealthy == Threshold(percent=40)
    assert recovery.limits.domain == "availability_zone"
    assert recovery.snapshot is not None
    assert recovery.evidence is not None
