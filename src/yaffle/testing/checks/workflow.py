"""The promises of `ports.Workflow`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from yaffle.model.operations import Progress, ProgressState, Promise
from yaffle.testing.checks.timing import bounded, followed, new_id

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Target
    from yaffle.ports import Clock, Workflow


async def check_workflow(
    make: Callable[[], Workflow],
    name: str,
    params: Mapping[str, object],
    target: Target,
    runs: Callable[[], int],
    *,
    clock: Clock,
    patience_s: float = 30.0,
) -> None:
    """Run a workflow that succeeds; `runs` counts how often it did its work."""
    make().validate(name, params)
    unknown = await _poll(make(), clock, name, target, new_id())
    assert unknown.state is ProgressState.ABSENT, (
        f"a workflow that nobody started must be ABSENT, not {unknown.state}"
    )
    ident, before = new_id(), runs()
    repeatable = Promise.DEDUPLICATES in make().promises

    async def followed_to_its_end() -> Progress:
        return await followed(
            clock,
            lambda: _submit(make(), clock, name, params, target, ident),
            lambda: _poll(make(), clock, name, target, ident),
            patience_s,
            repeatable=repeatable,
        )

    done = await followed_to_its_end()
    assert done.state is ProgressState.DONE, f"the workflow failed: {done.detail}"
    assert runs() == before + 1, f"it ran {runs() - before} times"
    if repeatable:
        again = await followed_to_its_end()
        assert again.state is ProgressState.DONE, "the same operation id has the same end"
        assert runs() == before + 1, "the same operation id must act once"


async def _submit(
    driver: Workflow,
    clock: Clock,
    name: str,
    params: Mapping[str, object],
    target: Target,
    ident: OperationId,
) -> Progress:
    return await bounded(
        clock,
        "submit",
        lambda s: driver.submit(
            name, params, target, operation_id=ident, timeout_s=30.0, deadline_s=s
        ),
    )


async def _poll(
    driver: Workflow, clock: Clock, name: str, target: Target, ident: OperationId
) -> Progress:
    return await bounded(
        clock, "poll", lambda s: driver.poll(name, target, operation_id=ident, deadline_s=s)
    )
