"""Watch the processes, nodes and hosts of a cloud, decide safely what has failed, and heal it."""

from typing import Final

__version__: Final = "0.1.0"
