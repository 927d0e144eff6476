"""Section `drivers."os.heat.stack-1.0"`: which cloud, and how often it is looked into."""

from __future__ import annotations

from dataclasses import dataclass

from yaffle.drivers.profiles.heat_stack.status.member_cache import AGAIN_S
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack import Choice, read_choice
from yaffle.integrations.openstack.servers.server_cache import FULL_S


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatSettings:
    """Settings of Heat."""

    choice: Choice
    """Whose credentials it acts with: one cloud's for all, or each project's own."""
    full_sweep_s: float
    """`full_sweep`: between two complete lists of servers; between them only changes are read."""
    member_sweep_s: float
    """`member_sweep`: between two looks at the members of a stack that has not changed."""

    @classmethod
    def read(cls, section: Section) -> HeatSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        found = cls(
            choice=read_choice(section),
            full_sweep_s=section.number("full_sweep", FULL_S, low=1.0, high=3600.0),
            member_sweep_s=section.number("member_sweep", AGAIN_S, low=1.0, high=3600.0),
        )
        section.finish()
        return found
