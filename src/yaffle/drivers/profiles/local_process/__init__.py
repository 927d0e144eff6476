"""Profile `yaffle.local.process-1.0`: a node is one process of this machine, and outlives the engine.

All that a successor must know lies in the node's folder (`folder.py`), and all that runs carries
markers in its environment (`process_table.py`). Under systemd the engine's unit needs `KillMode=process`,
or stopping the engine stops the nodes.
"""

from yaffle.drivers.profiles.local_process.profile import LocalProcess

__all__ = ["LocalProcess"]
