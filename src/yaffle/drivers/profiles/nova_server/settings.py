"""Section `drivers."os.nova.server-1.0"`: which cloud, and how much of it is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack import Choice, read_choice
from yaffle.integrations.openstack.servers.server_cache import FULL_S
from yaffle.integrations.openstack.servers.stuck_tasks import LONG_S, QUICK_S, Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The number of images of recoveries that are kept; the newest are."""

    per_node: int = 2
    per_cluster: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaSettings:
    """The operator's settings for Nova."""

    choice: Choice
    """Whose credentials it acts with: one cloud's for all, or each project's own."""
    all_projects: bool
    """Servers of every project are watched, which takes an administrator's credentials."""
    full_sweep_s: float
    """`full_sweep`: between two complete lists of servers; between them only changes are read."""
    bounds: Bounds
    """`stuck_after` and `stuck_after_long`: when a task of Nova's that does not move is a failure."""
    admit_hosts: bool
    """Yaffle itself takes back that a host is forced down, once nothing is left of what was moved off
    it, if HOST fencing had proved that it was off before."""
    kept: Kept
    """`snapshots_per_node` and `snapshots_per_cluster`."""

    @classmethod
    def read(cls, section: Section) -> NovaSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        found = cls(
            choice=read_choice(section),
            all_projects=section.flag("all_projects", default=False),
            full_sweep_s=section.number("full_sweep", FULL_S, low=1.0, high=3600.0),
            bounds=Bounds(
                quick_s=section.number("stuck_after", QUICK_S, low=5.0, high=86_400.0),
                long_s=section.number("stuck_after_long", LONG_S, low=5.0, high=86_400.0),
            ),
            admit_hosts=section.flag("admit_hosts", default=False),
            kept=Kept(
                per_node=int(section.number("snapshots_per_node", 2, low=1, high=100)),
                per_cluster=int(section.number("snapshots_per_cluster", 20, low=1, high=10_000)),
            ),
        )
        if found.all_projects and found.choice.per_project:
            section.wrong(
                "all_projects",
                'and credentials = "projects" exclude each other:'
                " no project's credential shows the servers of all",
            )
        section.finish()
        return found
