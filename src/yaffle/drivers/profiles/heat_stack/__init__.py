"""Profile `os.heat.stack-1.0`: a node is a stack of an OpenStack cloud, in Senlin's words.

What a successor must know lies on the stack (`status/ownership_tags.py`) and in Heat's and Nova's own
records (`operations/update.py`, `operations/delete.py`). Needs `yaffle[openstack]`, and a cloud in the
settings.
"""

from yaffle.drivers.profiles.heat_stack.profile import HeatStack

__all__ = ["HeatStack"]
