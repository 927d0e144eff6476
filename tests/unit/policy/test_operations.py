"""Actions against what a profile declares: names, params, and the check when a policy is attached."""

from __future__ import annotations

import pytest
from tests.unit.policy.documents import accepted, document, problems

from yaffle.model.operations import OperationSpec, ParamSpec
from yaffle.policy import check_operations, parse_document

REBOOT = OperationSpec(
    description="Restart.",
    in_place=True,
    params={"type": ParamSpec(type=str, choices=("SOFT", "HARD"))},
)
MOVE = OperationSpec(
    description="Move it.",
    in_place=False,
    params={
        "host": ParamSpec(type=str, required=True),
        "tries": ParamSpec(type=int),
        "live": ParamSpec(type=bool),
        "speed": ParamSpec(type=float),
    },
)
PROFILE = {"CREATE": REBOOT, "DELETE": REBOOT, "REBOOT": REBOOT, "MOVE": MOVE}


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "recovery.actions.0.params: MOVE needs the parameter host"),
        ({"host": 5}, "recovery.actions.0.params.host: has to be text, not 5"),
        ({"host": "h", "tries": "3"}, "params.tries: has to be a whole number, not '3'"),
        ({"host": "h", "tries": True}, "params.tries: has to be a whole number, not true"),
        ({"host": "h", "live": 1}, "params.live: has to be true or false, not 1"),
        ({"host": "h", "speed": "fast"}, "params.speed: has to be a number, not 'fast'"),
        ({"hots": "h", "host": "h"}, "params.hots: unknown parameter of MOVE (did you mean host?)"),
    ],
)
def test_params_are_checked_against_the_profile(params: dict[str, object], said: str) -> None:
    doc = document("1.2", actions=[{"name": "MOVE", "params": params}])
    found = problems(doc, profile_operations=PROFILE)
    assert len(found) == 1
    assert said in found[0]


def test_params_that_fit() -> None:
    params = {"host": "{{ node.attributes.spare }}", "tries": 2, "live": False, "speed": 1}
    doc = document(actions=[{"name": "MOVE", "params": params}])
    action = accepted(doc, profile_operations=PROFILE).policy.recovery.actions[0]
    assert action.params == params
    assert action.in_place is False


@pytest.mark.parametrize("name", ["CREATE", "DELETE", "STOP"])
def test_what_brings_nothing_back_is_no_recovery(name: str) -> None:
    found = problems(document(actions=[{"name": name}]), profile_operations=PROFILE)
    assert any(f"{name} recovers nothing" in line for line in found)


def test_recreate_is_never_in_place_whatever_a_profile_says() -> None:
    profile = {"RECREATE": OperationSpec(description="", in_place=True)}
    doc = document(actions=[{"name": "RECREATE"}])
    assert not parse_document(doc, profile_operations=profile).policy.recovery.actions[0].in_place


def test_unknown_action_hints_at_workflows() -> None:
    (line,) = problems(document(actions=[{"name": "my_evacuation"}]))
    assert "a workflow needs its type: MISTRAL_WORKFLOW, COMMAND or HTTP" in line


def test_attach_lists_what_the_profile_lacks() -> None:
    actions = [
        {"name": "REBOOT"},
        {"name": "EVACUATE"},
        {"name": "any", "type": "HTTP"},
        {"name": "RECREATE"},
    ]
    policy = accepted(document(actions=actions)).policy
    assert check_operations(policy, PROFILE) == (
        (
            "recovery.actions.1.name: this profile has no operation EVACUATE;"
            " it has REBOOT, MOVE, RECREATE"
        ),
    )


def test_attach_checks_params_again() -> None:
    policy = accepted(document(actions=[{"name": "REBOOT", "params": {"type": "soft"}}])).policy
    assert check_operations(policy, PROFILE) == ()
    bare = {"REBOOT": OperationSpec(description="", in_place=True)}
    assert check_operations(policy, bare) == (
        "recovery.actions.0.params.type: unknown parameter of REBOOT; REBOOT takes none",
    )


def test_kinds_that_are_switched_off_here() -> None:
    kinds = frozenset({"BUILTIN", "HTTP"})
    doc = document(actions=[{"name": "x", "type": "COMMAND"}, {"name": "y", "type": "HTTP"}])
    (line,) = problems(doc, available_kinds=kinds)
    assert line.startswith("recovery.actions.0.type: not available here: COMMAND")


def test_modes_that_are_not_built_here() -> None:
    modes = frozenset({"NODE_STATUS_POLLING"})
    doc = document(modes=[{"type": "NODE_STATUS_POLLING"}, {"type": "LB_STATUS_POLLING"}])
    (line,) = problems(doc, available_modes=modes)
    assert line.startswith(
        "detection.detection_modes.1.type: not available here: LB_STATUS_POLLING; here: NODE_STATUS"
    )


@pytest.mark.parametrize("kind", ["MISTRAL_WORKFLOW", "COMMAND", "HTTP"])
def test_a_workflow_is_in_place_only_when_it_says_so(kind: str) -> None:
    actions = [{"name": "a", "type": kind}, {"name": "b", "type": kind, "in_place": True}]
    parsed = accepted(document(actions=actions, recovery={"fencing": ["COMPUTE", "HOST"]}))
    assert [action.in_place for action in parsed.policy.recovery.actions] == [False, True]
    # Both count: whether a workflow is in place is the word of its driver's settings.
    assert parsed.arithmetic.fence_s == 2 * (2 * 30 + 4)
