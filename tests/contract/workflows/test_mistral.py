"""Mistral's workflows: begun once, read to their end, cancelled when late, and silence is no failure."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.contract.workflows.mistral import (
    AWAY,
    DEAF,
    FORBIDDING,
    GATEWAY,
    HANGING,
    WELL,
    Mistral,
    mistral,
)
from tests.contract.workflows.targets import NODE

from yaffle.drivers.workflows.mistral import MistralWorkflow
from yaffle.drivers.workflows.mistral.executions import LAST_S, STATES
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError, InvalidSpec
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState
from yaffle.ports import DriverContext

HEAL = {"node_id": "server-1"}


@pytest.fixture(scope="module")
def served() -> Iterator[Mistral]:
    with mistral() as state:
        yield state


@pytest.fixture
def theirs(served: Mistral) -> Iterator[Mistral]:
    yield served
    served.manner = WELL
    served.goes_on.set()


@pytest.fixture
def ours(theirs: Mistral, tmp_path: Path) -> MistralWorkflow:
    file = tmp_path / "clouds.yaml"
    cloud = {"auth_type": "none", "auth": {"endpoint": theirs.url}}
    file.write_text(yaml.safe_dump({"clouds": {"lab": cloud}}))
    return driver({"cloud": "lab", "clouds_file": str(file), "in_place": ["heal"]})


def driver(settings: dict[str, Any]) -> MistralWorkflow:
    return MistralWorkflow(DriverContext(clock=SystemClock(), state_dir=Path(), settings=settings))


def new() -> OperationId:
    return OperationId(str(uuid.uuid4()))


def submit(
    ours: MistralWorkflow,
    ident: OperationId,
    name: str = "heal",
    params: object = None,
    *,
    timeout_s: float = 60,
    deadline_s: float = 60,
) -> Progress:
    return asyncio.run(
        ours.submit(
            name,
            HEAL if params is None else params,  # type: ignore[arg-type]
            NODE,
            operation_id=ident,
            timeout_s=timeout_s,
            deadline_s=deadline_s,
        )
    )


def poll(ours: MistralWorkflow, ident: OperationId, *, deadline_s: float = 60) -> Progress:
    return asyncio.run(ours.poll("heal", NODE, operation_id=ident, deadline_s=deadline_s))


def test_it_is_begun_under_the_operations_own_id(ours: MistralWorkflow, theirs: Mistral) -> None:
    ident = new()
    assert poll(ours, ident).state is ProgressState.ABSENT
    assert submit(ours, ident).state is ProgressState.RUNNING
    begun = theirs.executions[ident]
    assert json.loads(begun["input"]) == HEAL
    note = json.loads(begun["description"])
    assert note["yaffle_operation"] == ident
    assert NODE.node_id in note["node"]
    assert NODE.cluster_name == note["cluster"]


def test_twice_is_once(ours: MistralWorkflow, theirs: Mistral) -> None:
    ident = new()
    for _ in range(3):
        assert submit(ours, ident).state is ProgressState.RUNNING
    assert theirs.begun.count(ident) == 1


@pytest.mark.parametrize("word", [*STATES, "DREAMING"])
def test_a_state_means(ours: MistralWorkflow, theirs: Mistral, word: str) -> None:
    ident = new()
    submit(ours, ident)
    theirs.state(ident, word, "because\nof that")
    found = poll(ours, ident)
    assert found.state is STATES.get(word, (ProgressState.RUNNING, ""))[0]
    assert "because of that" in found.detail
    assert ident in found.detail
    # Who submits again, not knowing that it has ended, hears the same.
    assert submit(ours, ident).state is found.state


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [("unheard-of", HEAL, "Workflow not found"), ("heal", {"x": 1}, "Invalid input")],
)
def test_what_mistral_refuses_has_failed(
    ours: MistralWorkflow, theirs: Mistral, name: str, params: object, says: str
) -> None:
    ident = new()
    found = submit(ours, ident, name, params)
    assert found == Progress(state=ProgressState.FAILED, detail=found.detail)
    assert says in found.detail
    assert ident not in theirs.begun


def test_that_we_may_not_ask_is_no_word_of_the_workflow(
    ours: MistralWorkflow, theirs: Mistral
) -> None:
    theirs.manner = FORBIDDING
    found = submit(ours, new())
    assert found == Progress.not_begun(found.detail)
    assert "does not allow" in found.detail


@pytest.mark.parametrize("manner", [AWAY, HANGING, DEAF, GATEWAY])
def test_silence_is_not_failure(ours: MistralWorkflow, theirs: Mistral, manner: str) -> None:
    ident, other = new(), new()
    submit(ours, other)
    theirs.goes_on.clear()
    theirs.manner = manner
    # Who is answered somehow has all the time that it takes to be heard.
    deadline_s = 1 if manner == HANGING else 60
    assert submit(ours, ident, deadline_s=deadline_s).state is ProgressState.RUNNING
    if manner != DEAF:
        # Not absent either: a proxy's 404 says nothing of what Mistral knows.
        assert poll(ours, other, deadline_s=deadline_s).state is ProgressState.RUNNING
    theirs.manner = WELL
    theirs.goes_on.set()
    after = poll(ours, ident)
    assert after.state is (ProgressState.RUNNING if manner == DEAF else ProgressState.ABSENT)
    assert submit(ours, ident).state is ProgressState.RUNNING
    assert theirs.begun.count(ident) == 1


def test_one_that_is_late_is_cancelled_and_nothing_else_is(
    ours: MistralWorkflow, theirs: Mistral
) -> None:
    late, just, early, foreign = new(), new(), new(), new()
    for ident in (late, just, early, foreign):
        submit(ours, ident, timeout_s=600)
    theirs.age(late, 601)
    # When the timeout is over nobody asks any more.
    theirs.age(just, 600 - LAST_S + 1)
    theirs.age(early, 300)
    theirs.age(foreign, 3600)
    theirs.executions[foreign]["description"] = "started by hand"
    for ident in (late, just):
        assert poll(ours, ident).state is ProgressState.FAILED
        assert theirs.executions[ident]["state"] == "CANCELLED"
    for ident in (early, foreign):
        assert poll(ours, ident).state is ProgressState.RUNNING
        assert theirs.executions[ident]["state"] == "RUNNING"


def test_one_that_ended_in_time_is_not_cancelled_for_being_read_late(
    ours: MistralWorkflow, theirs: Mistral
) -> None:
    ident = new()
    submit(ours, ident, timeout_s=30)
    theirs.state(ident, "SUCCESS")
    theirs.age(ident, 3600)
    assert poll(ours, ident).state is ProgressState.DONE


def test_without_a_cloud_it_is_off() -> None:
    ours = driver({})
    with pytest.raises(InvalidSpec, match=r"drivers\.MISTRAL_WORKFLOW\.cloud"):
        ours.validate("heal", HEAL)
    off = submit(ours, new())
    assert off == Progress.not_begun(off.detail)
    # Switched off while it ran, nobody knows what has become of it.
    assert poll(ours, new()).state is ProgressState.RUNNING


def test_only_the_operator_says_what_is_in_place(ours: MistralWorkflow) -> None:
    assert ours.in_place("heal")
    assert not ours.in_place("break")


def test_params_that_are_no_json_are_refused(ours: MistralWorkflow) -> None:
    ours.validate("heal", HEAL)
    with pytest.raises(InvalidSpec, match="no JSON form"):
        ours.validate("heal", {"x": object()})
    with pytest.raises(InvalidSpec, match="more than"):
        ours.validate("heal", {"x": "y" * 70_000})


def test_bad_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"drivers\.MISTRAL_WORKFLOW\.colour"):
        driver({"cloud": "lab", "colour": "red"})
    with pytest.raises(ConfigError, match=r"drivers\.MISTRAL_WORKFLOW\.clouds_file"):
        driver({"cloud": "lab", "clouds_file": str(tmp_path / "none")})
