"""Which process runs which file: one of them all that share the lab, so that none waits for it.

Those tests wait for a cloud more than they work, and most want it alone; the others keep the processors
busy meanwhile. Whoever has run out of its own kind takes the other. What takes long comes first and small
change last, so that all of them end at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

LAB: Final = "tests/openstack/"
LONG: Final = (
    "tests/packaging/",
    "tests/chaos/",
    "tests/functional/apart/",
    "tests/functional/cli/",
    "tests/contract/local_process/",
)
"""Where a file of few tests takes minutes: elsewhere many tests are much work."""
KEEPER: Final = "gw0"
"""The process that runs what shares the lab; what it is given first is something else: it comes up."""


class ByLab(LoadFileScheduling):  # type: ignore[misc]
    """Files as units, as `--dist loadfile`; the longest first of what suits the process."""

    def _assign_work_unit(self, node: Any) -> None:
        of_lab = node.gateway.id == KEEPER and bool(self.assigned_work[node])
        if (first := chosen(list(self.workqueue), of_lab=of_lab)) is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


def chosen(files: Sequence[str], *, of_lab: bool) -> str | None:
    """Return the file that comes next, of those that use the lab or not, as it is wanted.

    `files`: those with the most tests first. None where there is none of the kind.
    """
    fitting = [name for name in files if name.startswith(LAB) == of_lab]
    return min(fitting, key=lambda name: not name.startswith(LONG), default=None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByLab | None:
    """Take the place of `--dist loadfile`."""
    return ByLab(config, log) if config.getvalue("dist") == "loadfile" else None
