"""A cluster's status, from its nodes' by Senlin's rule: sizes against the number of ACTIVE nodes."""

from __future__ import annotations

from yaffle.model.health import ClusterStatus


def judge(
    active: int, *, desired: int, min_size: int, max_size: int, operation: str
) -> tuple[ClusterStatus, str]:
    """Return Senlin's status and reason after `operation`; `max_size` -1 means no upper bound."""
    count = f"{operation}: number of active nodes is"
    if active < min_size:
        return ClusterStatus.ERROR, f"{count} below min_size ({min_size})."
    if active < desired:
        return ClusterStatus.WARNING, f"{count} below desired_capacity ({desired})."
    if 0 <= max_size < active:
        return ClusterStatus.WARNING, f"{count} above max_size ({max_size})."
    return ClusterStatus.ACTIVE, f"{count} equal or above desired_capacity ({desired})."
