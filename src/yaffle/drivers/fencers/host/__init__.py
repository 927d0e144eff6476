"""HOST fencing: the machine under a node is switched off by a program of fence-agents."""

from yaffle.drivers.fencers.host.driver import HostFencer

__all__ = ["HostFencer"]
