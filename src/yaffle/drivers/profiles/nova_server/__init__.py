"""Profile `os.nova.server-1.0`: a node is a server of an OpenStack cloud, in Senlin's words.

What a successor must know lies on the server (`tracking/ownership_tags.py`) and in Nova's own record of
what was done to it (`tracking/action_progress.py`, `operations/delete.py`). Needs `yaffle[openstack]`,
and a cloud in the settings.
"""

from yaffle.drivers.profiles.nova_server.profile import NovaServer

__all__ = ["NovaServer"]
