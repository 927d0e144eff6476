"""The promises of `ports.Profile`, asked of a real driver on a real (or scripted) backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from yaffle.errors import InvalidSpec
from yaffle.model.ids import NodeId
from yaffle.model.operations import (
    Operation,
    Progress,
    ProgressState,
    Promise,
    Reading,
    Target,
)
from yaffle.ports import SupportsDescription
from yaffle.testing.checks.abilities import check_describing, check_schema
from yaffle.testing.checks.timing import SHORT_S, bounded, followed, new_id

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId
    from yaffle.ports import Clock, Profile
    from yaffle.testing.checks.timing import Hang

DONE, FAILED, ABSENT = ProgressState.DONE, ProgressState.FAILED, ProgressState.ABSENT


async def check_profile(
    make: Callable[[], Profile],
    spec: Mapping[str, object],
    *,
    clock: Clock,
    hang: Hang | None = None,
    patience_s: float = 60.0,
) -> None:
    """Build, read, rebuild and delete one node; raise AssertionError at the first broken promise.

    `make` returns a new driver for the same backend, as a restarted engine has it. The node that is
    built is removed again, whatever happens.
    """
    bench = _Bench(make=make, clock=clock, patience_s=patience_s)
    target = bench.target(_check_spec(make(), spec))
    try:
        await _check_nothing(bench, target)
        target = await _check_create(bench, target)
        if isinstance(make(), SupportsDescription):
            await check_describing(make(), target, clock=clock)
        await _check_older(bench, target)
        if hang is not None:
            await _check_hang(bench, target, hang)
        await _check_delete(bench, target)
        await _check_late(bench, replace(target, physical_id=""))
    finally:
        await bench.do("DELETE", replace(target, physical_id=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    make: Callable[[], Profile]
    clock: Clock
    patience_s: float

    def target(self, spec: Mapping[str, object]) -> Target:
        ident = new_id()
        return Target(
            node_id=NodeId(ident),
            name=f"conformance-{ident[:8]}",
            physical_id="",
            profile_type=self.make().type,
            spec=spec,
        )

    async def read(self, target: Target) -> Reading:
        found = await bounded(
            self.clock, "read", lambda s: self.make().read([target], deadline_s=s)
        )
        assert len(found) == 1, f"read gave {len(found)} answers for one node"
        return found[0]

    async def submit(
        self, kind: str, target: Target, ident: OperationId, driver: Profile | None = None
    ) -> Progress:
        op = Operation(kind=kind, target=target, timeout_s=self.patience_s)
        chosen = driver or self.make()
        return await bounded(
            self.clock,
            f"submit {kind}",
            lambda s: chosen.submit(op, operation_id=ident, deadline_s=s),
        )

    async def poll(self, kind: str, target: Target, ident: OperationId) -> Progress:
        op = Operation(kind=kind, target=target, timeout_s=self.patience_s)
        return await bounded(
            self.clock,
            f"poll {kind}",
            lambda s: self.make().poll(op, operation_id=ident, deadline_s=s),
        )

    async def do(self, kind: str, target: Target, ident: OperationId | None = None) -> Progress:
        """Submit, and poll with instances that never saw the submit."""
        name = ident or new_id()
        return await followed(
            self.clock,
            lambda: self.submit(kind, target, name),
            lambda: self.poll(kind, target, name),
            self.patience_s,
            repeatable=Promise.DEDUPLICATES in self.make().promises,
        )


def _check_spec(profile: Profile, spec: Mapping[str, object]) -> Mapping[str, object]:
    missing = {"CREATE", "DELETE"} - set(profile.operations)
    assert not missing, f"{profile.type} must offer {', '.join(sorted(missing))}"
    valid = profile.validate(spec)
    check_schema(profile, valid)
    assert _refused(profile, {**spec, "no-such-property": 1}), (
        "a property that the profile does not know must be refused, by name"
    )
    return valid


def _refused(profile: Profile, spec: Mapping[str, object]) -> bool:
    try:
        profile.validate(spec)
    except InvalidSpec as error:
        return any("no-such-property" in problem for problem in error.problems)
    return False


async def _check_nothing(bench: _Bench, target: Target) -> None:
    """A node that was never built."""
    assert not list(await bench.make().read([], deadline_s=1.0)), "no targets, no readings"
    reading = await bench.read(target)
    assert reading.up is not True, "a node that was never built must not be read as up"
    seen = await bench.poll("CREATE", target, new_id())
    assert seen.state is ABSENT, f"an operation that never was must be ABSENT, not {seen.state}"
    gone = await bench.do("DELETE", target)
    assert gone.state is DONE, f"DELETE of what is not there must be DONE: {gone.detail}"
    strange = await bench.submit("NO-SUCH-VERB", target, new_id())
    assert strange.state is FAILED, "an operation that is not offered must be FAILED"


async def _check_create(bench: _Bench, target: Target) -> Target:
    ident = new_id()
    made = await bench.do("CREATE", target, ident)
    assert made.state is DONE, f"CREATE failed: {made.detail}"
    assert made.physical_id, "CREATE must say the physical id of the new copy"
    reading = await bench.read(target)
    assert reading.up is True, f"a node that was just built must be up: {reading.detail}"
    assert reading.exists, "what is up exists"
    known = replace(target, physical_id=made.physical_id)
    if Promise.DEDUPLICATES in bench.make().promises:
        again = await bench.do("CREATE", target, ident)
        assert (again.state, again.physical_id) == (DONE, made.physical_id), (
            f"the same operation id must act once: {again}"
        )
    late = await bench.poll("CREATE", target, ident)
    assert late.state is DONE, f"another process must be able to read how it ended: {late}"
    second = await bench.do("CREATE", known)
    assert second.state is FAILED, "CREATE must refuse while an older copy runs"
    assert (await bench.read(known)).up is True, "a refused CREATE must leave the copy alone"
    return known


async def _check_older(bench: _Bench, target: Target) -> None:
    """Sweepers go on deleting copies of the past; the present one is none of their business."""
    older = replace(target, physical_id=f"older-{new_id()}")
    swept = await bench.do("DELETE", older)
    after = await bench.read(target)
    assert after.up is True, f"DELETE of an older copy touched the present one: {swept.detail}"
    assert after.physical_id in {"", target.physical_id}, "it is not the same copy any more"
    if Promise.CONFIRMS_DELETE in bench.make().promises:
        assert swept.state is DONE, f"an older copy that is gone is gone: {swept.detail}"


async def _check_hang(bench: _Bench, target: Target, hang: Hang) -> None:
    async with hang():
        op = Operation(kind="DELETE", target=replace(target, physical_id="older"))
        readings = await bounded(
            bench.clock, "read", lambda s: bench.make().read([target], deadline_s=s), SHORT_S
        )
        assert readings[0].up is None, "a backend that hangs says neither up nor down"
        polled = await bounded(
            bench.clock,
            "poll",
            lambda s: bench.make().poll(op, operation_id=new_id(), deadline_s=s),
            SHORT_S,
        )
        assert polled.state is ProgressState.RUNNING, "no answer is no end"


async def _check_delete(bench: _Bench, target: Target) -> None:
    ident = new_id()
    gone = await bench.do("DELETE", target, ident)
    assert gone.state is DONE, f"DELETE failed: {gone.detail}"
    reading = await bench.read(target)
    assert reading.up is not True, "what was deleted must not be up"
    if Promise.CONFIRMS_DELETE in bench.make().promises:
        assert reading.up is False, "a confirmed deletion can be read back"
    again = await bench.do("DELETE", target)
    assert again.state is DONE, f"deleting twice is DONE twice: {again.detail}"


async def _check_late(bench: _Bench, target: Target) -> None:
    """A copy that comes about after its node was deleted, and whose id nobody knows."""
    late = await bench.do("CREATE", target)
    assert late.state is DONE, f"CREATE after DELETE failed: {late.detail}"
    gone = await bench.do("DELETE", target)
    assert gone.state is DONE, f"DELETE without a copy's id failed: {gone.detail}"
    reading = await bench.read(replace(target, physical_id=late.physical_id or ""))
    assert reading.up is not True, "DELETE without a copy's id must end whatever is the node's"
