"""Deletion, scaling and batch documents: Senlin's names and defaults, and every fault with its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.policy.documents import accepted, document, problems

from yaffle.errors import InvalidSpec, NotFound
from yaffle.model.cluster_policies import (
    Adjustment,
    AdjustmentType,
    BatchPolicy,
    Criteria,
    DeletionPolicy,
    Hook,
    HookType,
    ScalingEvent,
    ScalingPolicy,
)
from yaffle.model.policy import HealthPolicy
from yaffle.policy import ParsedPolicy, UnknownPolicyType, parse, parse_document

HOOK = {"type": "webhook", "params": {"url": "https://hook.example/leave"}, "timeout": 30}


def doc(kind: str, version: object = "1.0", /, **properties: object) -> dict[str, Any]:
    return {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}


ADJUSTMENT = Adjustment(
    type=AdjustmentType.CHANGE_IN_CAPACITY, number=1, min_step=1, best_effort=False, cooldown_s=0
)


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        pytest.param(
            doc("deletion"),
            DeletionPolicy(
                version="1.0",
                criteria=Criteria.RANDOM,
                destroy_after_deletion=True,
                grace_period_s=0,
                reduce_desired_capacity=True,
            ),
            id="deletion-defaults",
        ),
        pytest.param(
            doc(
                "deletion",
                "1.1",
                criteria="OLDEST_PROFILE_FIRST",
                destroy_after_deletion="False",
                grace_period="60",
                reduce_desired_capacity=False,
                hooks=HOOK,
            ),
            DeletionPolicy(
                version="1.1",
                criteria=Criteria.OLDEST_PROFILE_FIRST,
                destroy_after_deletion=False,
                grace_period_s=60,
                reduce_desired_capacity=False,
                hook=Hook(type=HookType.WEBHOOK, url="https://hook.example/leave", timeout_s=30),
            ),
            id="deletion-in-full",
        ),
        pytest.param(
            doc("deletion", 1.1, hooks={}),
            DeletionPolicy(
                version="1.1",
                criteria=Criteria.RANDOM,
                destroy_after_deletion=True,
                grace_period_s=0,
                reduce_desired_capacity=True,
            ),
            id="an-empty-hook-is-none",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_OUT"),
            ScalingPolicy(
                version="1.0", event=ScalingEvent.CLUSTER_SCALE_OUT, adjustment=ADJUSTMENT
            ),
            id="scaling-defaults",
        ),
        pytest.param(
            doc(
                "scaling",
                event="CLUSTER_SCALE_IN",
                adjustment={
                    "type": "CHANGE_IN_PERCENTAGE",
                    "number": "12.5",
                    "min_step": 2,
                    "best_effort": True,
                    "cooldown": 120,
                },
            ),
            ScalingPolicy(
                version="1.0",
                event=ScalingEvent.CLUSTER_SCALE_IN,
                adjustment=Adjustment(
                    type=AdjustmentType.CHANGE_IN_PERCENTAGE,
                    number=12.5,
                    min_step=2,
                    best_effort=True,
                    cooldown_s=120,
                ),
            ),
            id="scaling-in-full",
        ),
        pytest.param(
            doc("batch"),
            BatchPolicy(version="1.0", min_in_service=1, max_batch_size=-1, pause_s=60),
            id="batch-defaults",
        ),
        pytest.param(
            doc("batch", 1, min_in_service=0, max_batch_size="2", pause_time=0),
            BatchPolicy(version="1.0", min_in_service=0, max_batch_size=2, pause_s=0),
            id="batch-in-full",
        ),
    ],
)
def test_what_a_document_means(
    given: dict[str, Any], policy: DeletionPolicy | ScalingPolicy | BatchPolicy
) -> None:
    parsed = accepted(given)
    assert parsed.policy == policy
    assert parsed.type == given["type"]
    assert parsed.type_name == f"{given['type']}-{policy.version}"
    assert parsed.arithmetic is None
    assert parsed.warnings == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(
            doc("deletion", criteria="OLDEST"),
            "criteria: 'OLDEST' is not known (did you mean OLDEST_FIRST?); known: OLDEST_FIRST, "
            "OLDEST_PROFILE_FIRST, YOUNGEST_FIRST, RANDOM",
            id="criteria",
        ),
        pytest.param(
            doc("deletion", grace_period=-1),
            "grace_period: -1 is out of range; give 0 to 604800",
            id="grace-period",
        ),
        pytest.param(
            doc("deletion", hooks=HOOK),
            'hooks: needs version 1.1 (this document says 1.0); write version: "1.1"',
            id="hooks-in-1.0",
        ),
        pytest.param(
            doc("deletion", "1.1", hooks={"type": "zaqar", "params": {"queue": "q"}}),
            "hooks.type: zaqar is not served here; write type: webhook and params: {url: …}",
            id="zaqar",
        ),
        pytest.param(
            doc("deletion", "1.1", hooks={"timeout": 10}),
            "hooks.type: absent means zaqar, which is not served here; write type: webhook and "
            "params: {url: …}",
            id="zaqar-by-default",
        ),
        pytest.param(
            doc("deletion", "1.1", hooks={"type": "webhook", "params": {"url": ""}}),
            "hooks.params.url: required for webhook, for example https://host/path",
            id="webhook-without-url",
        ),
        pytest.param(
            doc("deletion", "1.1", hooks={**HOOK, "params": {"url": "ftp://host/"}}),
            "hooks.params.url: 'ftp://host/' is not http://host/path or https://host/path",
            id="webhook-elsewhere",
        ),
        pytest.param(
            doc("deletion", "1.1", url="http://x/"),
            "url: unknown key here; it belongs under hooks.params: check the indentation",
            id="lost-indentation",
        ),
        pytest.param(
            doc("scaling"), "event: required; CLUSTER_SCALE_IN or CLUSTER_SCALE_OUT", id="event"
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_RESIZE"),
            "event: 'CLUSTER_RESIZE' is not known",
            id="another-event",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_IN", adjustment={"number": 0}),
            "adjustment.number: 0 is out of range; give more than 0, up to 100000",
            id="number-0",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_IN", adjustment={"number": 1.5}),
            "adjustment.number: 1.5 is not a whole number of nodes",
            id="half-a-node",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_IN", adjustment={"number": "two"}),
            "adjustment.number: 'two' is not a number",
            id="number-in-words",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_IN", adjustment={"min_step": -1}),
            "adjustment.min_step: -1 is out of range; give 0 to 100000",
            id="min-step",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_IN", adjustment={"cooldown": -1}),
            "adjustment.cooldown: -1 is out of range; give 0 to",
            id="cooldown",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_IN", cooldown=5),
            "cooldown: unknown key here; it belongs under adjustment: check the indentation",
            id="cooldown-too-far-left",
        ),
        pytest.param(
            doc("batch", min_in_service=-1), "min_in_service: -1 is out of range", id="in-service"
        ),
        pytest.param(
            doc("batch", max_batch_size=0),
            "max_batch_size: 0 is out of range; give 1 to 100000, or -1 for no limit",
            id="a-batch-of-none",
        ),
        pytest.param(
            doc("batch", max_batch_size=1.5),
            "max_batch_size: 1.5 is not a whole number",
            id="a-batch-of-a-node-and-a-half",
        ),
        pytest.param(doc("batch", pause_time=-1), "pause_time: -1 is out of range", id="pause"),
        pytest.param(
            doc("batch", pause=1), "pause: unknown key (did you mean pause_time?)", id="near-miss"
        ),
        pytest.param(
            {"type": "senlin.policy.batch", "version": "1.0"},
            "properties: required; {} means Senlin's defaults",
            id="no-properties",
        ),
    ],
)
def test_faults(given: dict[str, Any], said: str) -> None:
    (line,) = problems(given)
    assert line.startswith(said)


def test_every_fault_is_told_at_once_with_its_place() -> None:
    text = """\
type: senlin.policy.deletion
version: "1.0"
properties:
  criteria: NEWEST
  grace_period: -5
  hooks: {type: webhook}
  colour: red
"""
    with pytest.raises(InvalidSpec) as caught:
        parse(text, source="d.yaml")
    assert [line.split(": ")[0] for line in caught.value.problems] == [
        "d.yaml:4:13 criteria",
        "d.yaml:5:17 grace_period",
        "d.yaml:6:3 hooks",
        "d.yaml:7:3 colour",
    ]


def test_what_could_not_be_read_is_blamed_once() -> None:
    text = "type: senlin.policy.batch\nversion: 1.0\nproperties: {pause_time: {{ x }}}"
    with pytest.raises(InvalidSpec) as caught:
        parse(text)
    (line,) = caught.value.problems
    assert "a template has to be quoted" in line


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(
            doc("deletion", "1.1", hooks={**HOOK, "timeout": 0}),
            "hooks.timeout: 0 or absent: the node is removed at once, whatever the hook answers",
            id="no-time",
        ),
        pytest.param(
            doc("deletion", "1.1", hooks={**HOOK, "params": {**HOOK["params"], "queue": "q"}}),  # type: ignore[dict-item]
            "hooks.params.queue: no effect: only zaqar has a queue",
            id="queue",
        ),
        pytest.param(
            doc("scaling", event="CLUSTER_SCALE_IN", adjustment={"min_step": 3}),
            "adjustment.min_step: no effect: only CHANGE_IN_PERCENTAGE has a least step",
            id="min-step",
        ),
    ],
)
def test_warnings(given: dict[str, Any], said: str) -> None:
    assert accepted(given).warnings == (said,)


@pytest.mark.parametrize(
    ("given", "message", "said"),
    [
        pytest.param(
            doc("affinity"),
            "The policy_type 'senlin.policy.affinity-1.0' could not be found.",
            "type: unknown policy type 'senlin.policy.affinity'; known: senlin.policy.batch, "
            "senlin.policy.deletion, senlin.policy.health, senlin.policy.scaling",
            id="type",
        ),
        pytest.param(
            doc("scaling", "1.1"),
            "The policy_type 'senlin.policy.scaling-1.1' could not be found.",
            "version: unknown version 1.1; known versions: 1.0",
            id="version",
        ),
        pytest.param(
            doc("deletoin", 1.1),
            "The policy_type 'senlin.policy.deletoin-1.1' could not be found.",
            "type: unknown policy type 'senlin.policy.deletoin' (did you mean "
            "senlin.policy.deletion?); known: ",
            id="near-miss",
        ),
    ],
)
def test_an_unknown_type_or_version_is_not_found(
    given: dict[str, Any], message: str, said: str
) -> None:
    with pytest.raises(UnknownPolicyType) as caught:
        parse_document(given)
    assert isinstance(caught.value, NotFound)
    assert str(caught.value) == message
    assert caught.value.hint.startswith(said)
    assert caught.value.problems == (caught.value.hint,)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"version": "1.0"}, id="no-type"),
        pytest.param({"type": "senlin.policy.batch"}, id="no-version"),
        pytest.param({"type": "other"}, id="neither-known-nor-versioned"),
        pytest.param({"type": 5, "version": "1.0"}, id="no-text"),
        pytest.param({"type": "other", "version": []}, id="no-version-at-all"),
        pytest.param({"type": "other", "version": "1.0", 1: 2}, id="wrong-besides"),
    ],
)
def test_a_document_that_names_no_type_is_wrong_rather_than_not_found(given: object) -> None:
    with pytest.raises(InvalidSpec):
        parse_document(given)


def test_only_a_health_policy_will_do_where_one_is_asked_for() -> None:
    assert isinstance(parse_document(document()).health, HealthPolicy)
    with pytest.raises(InvalidSpec, match="is no health policy"):
        _ = parse_document(doc("batch")).health


COUNTS = st.integers(0, 1000)
DELETIONS = st.fixed_dictionaries(
    {},
    optional={
        "criteria": st.sampled_from(Criteria).map(str),
        "destroy_after_deletion": st.booleans(),
        "grace_period": COUNTS,
        "reduce_desired_capacity": st.booleans(),
        "hooks": st.just({})
        | st.fixed_dictionaries(
            {"type": st.just("webhook"), "params": st.just({"url": "http://h/"})},
            optional={"timeout": COUNTS},
        ),
    },
)
SCALINGS = st.fixed_dictionaries(
    {"event": st.sampled_from(ScalingEvent).map(str)},
    optional={
        "adjustment": st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(AdjustmentType).map(str),
                "number": st.integers(1, 1000),
                "min_step": COUNTS,
                "best_effort": st.booleans(),
                "cooldown": COUNTS,
            },
        )
    },
)
BATCHES = st.fixed_dictionaries(
    {},
    optional={
        "min_in_service": COUNTS,
        "max_batch_size": st.integers(1, 1000) | st.just(-1),
        "pause_time": COUNTS,
    },
)
DOCUMENTS = (
    DELETIONS.map(lambda p: doc("deletion", "1.1", **p))
    | SCALINGS.map(lambda p: doc("scaling", **p))
    | BATCHES.map(lambda p: doc("batch", **p))
)


@given(DOCUMENTS)
def test_the_full_document_means_the_same(given: dict[str, Any]) -> None:
    assert accepted(given).type == given["type"]


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
KEYS = ["criteria", "hooks", "type", "params", "url", "event", "adjustment", "number", "pause_time"]
TREE = st.recursive(
    LEAF,
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(KEYS), x, max_size=4),
    max_leaves=10,
)


@given(st.sampled_from(["deletion", "scaling", "batch"]), st.sampled_from(["1.0", "1.1"]), TREE)
def test_any_document_is_a_policy_or_refused(kind: str, version: str, properties: object) -> None:
    given = {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}
    try:
        assert isinstance(parse_document(given), ParsedPolicy)
    except (InvalidSpec, UnknownPolicyType) as error:
        assert error.problems  # noqa: PT017 - any other error fails the test
