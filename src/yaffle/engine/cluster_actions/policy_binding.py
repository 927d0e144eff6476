"""Transitions that attach, update and detach policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.engine.cluster_actions.cluster_action import Ended, failed
from yaffle.engine.cluster_actions.finalize import conclude
from yaffle.engine.detection.cluster_snapshot import declared_in_place
from yaffle.errors import BadRequest, Forbidden, InvalidSpec, MultipleChoices, NotFound
from yaffle.model.action import ActionKind
from yaffle.model.operations import EMPTY
from yaffle.model.policy import HealthPolicy, ModeType, Recovery, RungKind
from yaffle.policy import caveats, check_operations, parse_document
from yaffle.policy.catalogue import FAMILIES
from yaffle.ports import NeedsSettings, SupportsHostStatus, SupportsModeValidation
from yaffle.store import catalog, events
from yaffle.store.rows import BindingRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Transition
    from yaffle.engine.runtime.context import Drivers, EngineContext
    from yaffle.policy import ParsedPolicy
    from yaffle.store.rows import ClusterRow, PolicyRow

ATTACH: Final = ActionKind.CLUSTER_ATTACH_POLICY


def type_of(row_type: str) -> str:
    """Return the type of `senlin.policy.health-1.2` without its version."""
    return row_type.rpartition("-")[0]


def attach(job: ClusterAction) -> Transition:
    """Attach a policy; again is no error, a second one of a singleton type is."""
    row = policy_of(job)
    present = catalog.bindings_of(job.conn, job.cluster.id)
    if any(b.policy_id == row.id for b in present):
        return conclude(job, Ended())
    rival = rival_of(row, present)
    if rival is not None:
        return conclude(
            job,
            failed(
                f"Only one instance of policy type ({type_of(row.type)}) can be attached to a"
                f" cluster, but another instance ({rival.policy_id}) is found."
            ),
        )
    enabled = job.inputs.get("enabled", True)
    warnings = bind(job.ctx, job.conn, job.cluster, row, enabled=enabled is not False)
    return conclude(job, Ended(outputs={"warnings": warnings} if warnings else EMPTY))


def detach(job: ClusterAction) -> Transition:
    """Detach a policy; running recoveries go on with the policy they began with."""
    binding = binding_of(job)
    catalog.remove(job.conn, BindingRow, binding.id)
    return conclude(job, Ended())


def switch(job: ClusterAction) -> Transition:
    """Enable or disable an attached policy."""
    binding = binding_of(job)
    enabled = bool(job.inputs.get("enabled"))
    catalog.change(job.conn, BindingRow, binding.id, enabled=enabled, updated_us=job.now_us)
    return conclude(job, Ended())


def policy_of(job: ClusterAction) -> PolicyRow:
    """Return the policy that the request names; raise BadRequest for none."""
    word = str(job.inputs.get("policy_id", ""))
    try:
        return catalog.find_policy(job.conn, word, job.cluster.project)
    except NotFound as error:
        raise BadRequest(
            f"The specified policy '{word}' could not be found.", hint=error.hint
        ) from None


def binding_of(job: ClusterAction) -> BindingRow:
    """Return the binding that the request names; raise BadRequest where there is none."""
    word = str(job.inputs.get("policy_id", ""))
    found: BindingRow | None = None
    try:
        row = catalog.find_policy(job.conn, word, job.cluster.project)
    except MultipleChoices:
        raise
    except NotFound:
        pass
    else:
        present = catalog.bindings_of(job.conn, job.cluster.id)
        found = next((b for b in present if b.policy_id == row.id), None)
    if found is None:
        raise BadRequest(
            f"The policy '{word}' is not attached to the specified cluster '{job.cluster.id}'."
        )
    return found


def rival_of(row: PolicyRow, present: Sequence[BindingRow]) -> BindingRow | None:
    """Return the binding that rules out another policy of this type."""
    kind = type_of(row.type)
    if not FAMILIES[kind].singleton:
        return None
    return next((b for b in present if type_of(b.policy_type) == kind), None)


def bind(
    ctx: EngineContext, conn: Connection, cluster: ClusterRow, row: PolicyRow, *, enabled: bool
) -> list[str]:
    """Insert a binding after checking that it fits; return and record its warnings."""
    parsed = parse_document(row.spec)
    fits(ctx, conn, parsed, cluster)
    warnings = _warnings(ctx, conn, parsed, cluster)
    for warning in warnings:
        _warn(conn, cluster, row, warning, ctx.clock.now_us())
    binding = {
        "id": ctx.new_id(),
        "cluster_id": cluster.id,
        "policy_id": row.id,
        "policy_type": row.type,
        "enabled": enabled,
        "priority": FAMILIES[type_of(row.type)].priority,
        "created_us": ctx.clock.now_us(),
    }
    catalog.add(conn, BindingRow, binding)
    return warnings


def _warnings(
    ctx: EngineContext, conn: Connection, parsed: ParsedPolicy, cluster: ClusterRow
) -> list[str]:
    policy = parsed.policy
    driver = ctx.drivers.profiles.get(catalog.profile(conn, cluster.profile_id).type)
    if driver is None or not isinstance(policy, HealthPolicy):
        return []
    found = caveats(policy, driver.operations)
    return [f"{'.'.join(map(str, path[1:]))}: {text}" for path, text in found]


def _warn(conn: Connection, cluster: ClusterRow, row: PolicyRow, warning: str, now_us: int) -> None:
    about = events.Subject(
        otype="CLUSTER",
        oid=cluster.id,
        oname=cluster.name,
        cluster_id=cluster.id,
        project=cluster.project,
    )
    events.append(
        conn,
        about,
        at_us=now_us,
        action=ATTACH,
        status="warning",
        reason=f"policy {row.name}: {warning}",
        level=events.WARNING,
        data={"policy": row.id},
    )


def fits(
    ctx: EngineContext, conn: Connection, parsed: ParsedPolicy, cluster: ClusterRow | None
) -> None:
    """Refuse a policy that could not work here: an operation that the profile lacks, a missing driver.

    A binding without a working watch is impossible (contracts of the health policy, "nothing after
    attach"): what cannot be asked or done is said now and not found out at three in the morning.
    """
    policy = parsed.policy
    if cluster is None or not isinstance(policy, HealthPolicy):
        return
    profile = catalog.profile(conn, cluster.profile_id)
    driver = ctx.drivers.profiles.get(profile.type)
    if driver is None:
        raise Forbidden(f"profile type {profile.type!r} is not available here")
    lacking = check_operations(policy, driver.operations)
    problems = [*lacking, *missing_drivers(ctx.drivers, policy)]
    if policy.recovery.snapshot is not None and "SNAPSHOT" not in driver.operations:
        problems.append(f"recovery.snapshot: profile type {driver.type} cannot take snapshots")
    for place, mode in enumerate(policy.detection.modes):
        if mode.type is ModeType.HYPERVISOR_STATUS_POLLING and not isinstance(
            driver, SupportsHostStatus
        ):
            where = f"detection.detection_modes.{place}.type"
            problems.append(
                f"{where}: nodes of {driver.type} have no hosts that could be asked for"
            )
    if problems:
        raise InvalidSpec(problems)


def missing_drivers(drivers: Drivers, policy: HealthPolicy) -> Iterator[str]:
    """Return the drivers that the policy needs and this engine lacks."""
    for place, mode in enumerate(policy.detection.modes):
        detector: object = drivers.detectors.get(mode.type)
        if isinstance(detector, SupportsModeValidation) and (fault := detector.misfit(mode)):
            yield f"detection.detection_modes.{place}: {fault}"
        if detector is None:
            yield (
                f"detection.detection_modes.{place}.type: {mode.type} is not available here;"
                f" installed: {', '.join(sorted(drivers.detectors))}"
            )
    for place, action in enumerate(policy.recovery.actions):
        where = f"recovery.actions.{place}"
        if action.kind is RungKind.BUILTIN:
            continue
        driver = drivers.workflows.get(action.kind)
        if driver is None:
            yield f"{where}.type: no driver for {action.kind} workflows is installed here"
            continue
        try:
            driver.validate(action.name, action.params)
        except InvalidSpec as error:
            yield from (f"{where}: {problem}" for problem in error.problems)
            continue
        if not declared_in_place(drivers, action) and (why := _never_fenced(policy.recovery)):
            yield f"{where}: the {action.kind} workflow {action.name!r} {why}"
    for place, kind in enumerate(policy.recovery.fencing):
        fencer: object = drivers.fencers.get(kind)
        if isinstance(fencer, NeedsSettings) and (lack := fencer.lacking()):
            yield f"recovery.fencing.{place}: {kind} {lack}"
        if fencer is None:
            yield (
                f"recovery.fencing.{place}: no {kind} fencer is installed here;"
                f" installed: {', '.join(sorted(drivers.fencers)) or 'none'}"
            )


def _never_fenced(recovery: Recovery) -> str:
    """Say why a workflow that may make a second copy would never be run; empty where it can be."""
    if recovery.fencing or recovery.node_force_recreate:
        return ""
    return (
        "would never be run: it may start a second copy (the operator has not declared it in_place),"
        " so that the old copy has to be proved gone first, and recovery.fencing names nobody who"
        " could; add fencing: [COMPUTE], or have in_place = true set for it in the settings"
    )
