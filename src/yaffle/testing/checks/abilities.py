"""The promises of what a profile may offer besides: schema, description, update, adoption."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from yaffle.model.operations import (
    Inspection,
    InspectionState,
    Operation,
    OperationKind,
    Progress,
    ProgressState,
    Promise,
    on_the_wire,
)
from yaffle.ports import SupportsAdoption, SupportsDescription
from yaffle.testing.checks.timing import DEADLINE_S, bounded, followed, new_id

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Target
    from yaffle.ports import Clock, Profile

FOUND, REFUSED = InspectionState.FOUND, InspectionState.REFUSED
PATIENCE_S = 60.0


def check_schema(profile: Profile, valid: Mapping[str, object]) -> None:
    """A schema tells exactly what `validate` accepts; `valid` is what that gave back."""
    unknown = sorted(set(valid) - set(profile.schema))
    assert not unknown, f"properties that the schema does not name: {', '.join(unknown)}"
    for name, node in profile.schema.items():
        assert not (node.required and node.default is not None), f"{name}: required and defaulted"
        json.dumps(node.shown())
    wrong = [n for n in on_the_wire(profile.operations) if n != n.lower()]
    assert not wrong, f"operations have lower-case names on the wire: {wrong}"
    update = profile.operations.get(OperationKind.UPDATE)
    assert update is None or update.in_place, "UPDATE changes the present copy: it is in place"


async def check_describing(profile: Profile, target: Target, *, clock: Clock) -> None:
    """Facts about a node that runs can be shown as JSON."""
    assert isinstance(profile, SupportsDescription), f"{profile.type} describes nothing"
    facts = await bounded(clock, "describe", lambda s: profile.describe(target, deadline_s=s))
    assert facts, "a node that runs has facts"
    json.dumps(dict(facts))


async def check_update(
    make: Callable[[], Profile], target: Target, spec: Mapping[str, object], *, clock: Clock
) -> None:
    """Give a node that runs other properties: the same copy, once, and readable by a successor."""
    old, new = target, replace(target, spec=make().validate(spec))
    ident = new_id()
    done = await _do(make, OperationKind.UPDATE, new, ident, clock, {"old": dict(old.spec)})
    assert done.state is ProgressState.DONE, f"UPDATE failed: {done.detail}"
    assert done.physical_id in {None, target.physical_id}, "UPDATE keeps the copy that is there"
    op = Operation(kind=OperationKind.UPDATE, target=new)
    late = await bounded(clock, "poll", lambda s: make().poll(op, operation_id=ident, deadline_s=s))
    assert late.state is ProgressState.DONE, f"a successor must be able to read its end: {late}"
    reading = (await make().read([new], deadline_s=DEADLINE_S))[0]
    assert reading.up is True, f"an updated node runs: {reading.detail}"


async def check_adopting(
    make: Callable[[], Profile],
    identity: str,
    target: Target,
    other: Target,
    *,
    clock: Clock,
) -> None:
    """Adopt the stray `identity` as `target`'s copy, and delete it; `other` is a node without one.

    Inspecting changes nothing, a thing has one owner, and what was adopted is deleted and read like
    any other copy.
    """
    profile = make()
    assert isinstance(profile, SupportsAdoption), f"{profile.type} adopts nothing"
    nothing = await bounded(
        clock,
        "inspect",
        lambda s: profile.inspect("no-such-thing", overrides={}, snapshot=False, deadline_s=s),
    )
    assert nothing.state is InspectionState.ABSENT, f"there is no such thing: {nothing}"
    await _inspected(profile, identity, clock)
    seen = await _inspected(profile, identity, clock)
    assert seen.physical_id, "what can be adopted has a physical id"
    known = replace(
        target, physical_id=seen.physical_id, spec=profile.validate(dict(seen.properties))
    )
    for _ in range(2):
        mine = await bounded(clock, "adopt", lambda s: profile.adopt(known, deadline_s=s))
        assert mine.state is FOUND, f"adopting twice is adopting once: {mine.detail}"
    theirs = replace(other, physical_id=seen.physical_id)
    taken = await bounded(clock, "adopt", lambda s: profile.adopt(theirs, deadline_s=s))
    assert taken.state is REFUSED, "a thing has one owner"
    assert (await make().read([known], deadline_s=DEADLINE_S))[0].up is True, (
        "it is read as any other"
    )
    second = await _do(make, OperationKind.CREATE, known, new_id(), clock, {})
    assert second.state is ProgressState.FAILED, "CREATE must refuse while the adopted copy runs"
    gone = await _do(make, OperationKind.DELETE, known, new_id(), clock, {})
    assert gone.state is ProgressState.DONE, f"what was adopted is deleted: {gone.detail}"
    assert (await make().read([known], deadline_s=DEADLINE_S))[0].up is not True


async def _inspected(profile: SupportsAdoption, identity: str, clock: Clock) -> Inspection:
    seen = await bounded(
        clock,
        "inspect",
        lambda s: profile.inspect(identity, overrides={}, snapshot=False, deadline_s=s),
    )
    assert seen.state is FOUND, f"inspecting changes nothing: {seen.detail}"
    return seen


async def _do(
    make: Callable[[], Profile],
    kind: str,
    target: Target,
    ident: OperationId,
    clock: Clock,
    params: Mapping[str, object],
) -> Progress:
    op = Operation(kind=kind, target=target, params=params, timeout_s=PATIENCE_S)

    async def submit() -> Progress:
        return await bounded(
            clock, kind, lambda s: make().submit(op, operation_id=ident, deadline_s=s)
        )

    async def poll() -> Progress:
        return await bounded(
            clock, kind, lambda s: make().poll(op, operation_id=ident, deadline_s=s)
        )

    repeatable = Promise.DEDUPLICATES in make().promises
    return await followed(clock, submit, poll, PATIENCE_S, repeatable=repeatable)
