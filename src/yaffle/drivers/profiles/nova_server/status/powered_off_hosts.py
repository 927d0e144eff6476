"""Hosts whose power switch has said off: forced down in Nova, and believed dead until they report again.

That no guest runs there is proved by the switch's word alone (`Operation.off`), given in the very rung
that deletes and creates. It holds as long as the nova-compute there is not heard of: a report after it
means that somebody has switched the host on, or that the switch has lied. Nova stamps a service for a
report and also when an administrator changes it. So another stamp than was seen before the switch spoke
is watched for longer than the pause between two reports, and a second one ends the proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.tracking.operation import failed, running
from yaffle.errors import Forbidden
from yaffle.integrations.openstack.servers.termination_proof import proof, with_events

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
    from yaffle.model.operations import Progress

QUIET_S: Final = 15.0
"""Longer than the pause between two reports of a nova-compute (`report_interval`, 10 s)."""


def is_off(job: ServerOperation, host: str | None) -> bool:
    """Whether a power switch has said of that host, in this rung, that it is off."""
    return bool(host) and job.op.off is not None and host == job.op.off.host


def held_dead(job: ServerOperation) -> Progress | None:
    """Have Nova take the host that is off for dead, so that it stays so; return why not, if not."""
    assert job.op.off is not None  # noqa: S101 - who asks has seen that it is
    host = job.op.off.host
    if why := silent(job):
        return why
    service = (job.nova.services() or {}).get(host)
    if service is None:
        return _untold(job, host)
    if service.forced_down:
        return None
    try:
        job.nova.force_down(service)
    except Forbidden as error:
        return failed(
            f"{job.op.kind}: host {host} is off, and Nova does not let us force it down, without which"
            " it would only forget the server. Have an administrator say `openstack compute service"
            f" set --down {host} nova-compute`, or give Yaffle's user that right ({error})"
        )
    after = (job.nova.services() or {}).get(host)
    if after is not None and after.forced_down:
        job.memory.reports.settle(host, after.updated_at or "")
    return None


def silent(job: ServerOperation) -> Progress | None:
    """Say why the switch's word for the host does not count, or not yet; None while it does."""
    off = job.op.off
    assert off is not None  # noqa: S101 - who asks has seen that it is
    service = (job.nova.services() or {}).get(off.host)
    report = (service.updated_at or "") if service is not None else ""
    if not report:
        return _untold(job, off.host)
    reports = job.memory.reports
    if report in (off.reported, reports.settled(off.host)):
        return None
    now_s = job.clock.monotonic_s()
    since_s, changed = reports.watch(f"{job.operation_id} {off.host}", report, now_s)
    if changed:
        return failed(
            f"{job.op.kind}: host {off.host} reports again since its power switch said off: that it was"
            " off proves nothing of its guests any more"
        )
    if now_s - since_s < QUIET_S:
        return running(
            f"what Nova knows of host {off.host} has changed since that was switched off: it is watched"
            " whether it reports again"
        )
    reports.settle(off.host, report)
    return None


def _untold(job: ServerOperation, host: str) -> Progress:
    return failed(
        f"{job.op.kind}: Nova does not tell us whether host {host}, which was switched off, reports"
        " again"
    )


def ended_by_host(job: ServerOperation, ident: str) -> bool:
    """Whether Nova's record shows that the host itself has ended the guest of a server that is gone."""
    acts = (job.nova.acts(ident) if ident else None) or ()
    return proof(with_events(acts, lambda request: job.nova.act(ident, request)))[0] is True
