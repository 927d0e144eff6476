"""Which process runs which file: one of them all that share the lab, so that none waits for it.

Those tests wait for a cloud more than they work, and most want it alone; the others keep the processors
busy meanwhile. Whoever has run out of its own kind takes the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

LAB: Final = "tests/openstack/"
KEEPER: Final = "gw0"
"""The process that runs what shares the lab; what it is given first is something else: it comes up."""


class ByLab(LoadFileScheduling):  # type: ignore[misc]
    """Files as units, as `--dist loadfile`; the biggest first of what suits the process."""

    def _assign_work_unit(self, node: Any) -> None:
        of_lab = node.gateway.id == KEEPER and bool(self.assigned_work[node])
        if (first := chosen(list(self.workqueue), of_lab=of_lab)) is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


def chosen(files: Sequence[str], *, of_lab: bool) -> str | None:
    """Return the first file that uses the lab, or does not, as it is wanted; None if there is none."""
    return next((name for name in files if name.startswith(LAB) == of_lab), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByLab | None:
    """Take the place of `--dist loadfile`."""
    return ByLab(config, log) if config.getvalue("dist") == "loadfile" else None
