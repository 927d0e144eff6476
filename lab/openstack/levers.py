"""What is done to guests and hypervisors behind Nova's back; `inside/virt/lab_driver.py` obeys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lab.openstack.errors import LabError
from lab.openstack.waiting import until

OBEYED_S: Final = 60.0


class Guest:
    """One server as its hypervisor has it.

    Each method returns when it is done and Nova was told, not when Nova has done anything about it.
    """

    def __init__(self, server: str, folder: Path, host_alive: Callable[[], bool]) -> None:
        self.server = server
        self.host = folder.name
        self._folder = folder
        self._host_alive = host_alive

    def off(self) -> None:
        """Switch it off, as a guest does that shuts itself down."""
        self._pull("off")

    def on(self) -> None:
        """Switch it on."""
        self._pull("on")

    def pause(self) -> None:
        """Let its processors stand still."""
        self._pull("pause")

    def vanish(self) -> None:
        """Remove it from its hypervisor; for Nova it stays ACTIVE."""
        self._pull("gone")

    def _pull(self, word: str) -> None:
        if not self._host_alive():
            raise LabError(f"{self.host} does not run: it can do nothing to guest {self.server}")
        lever = self._folder / "ctl" / self.server
        lever.write_text(word)
        what = f"{self.host} does {word} to guest {self.server}"
        until(what, lambda: not lever.exists(), OBEYED_S, poll_s=0.05)


class Trouble:
    """An operation that fails or is slow from now on, until `end()` or the end of a `with` block."""

    def __init__(self, folder: Path, operation: str, only: str = "", words: str = "") -> None:
        self._lever = folder / (f"{operation}.{only}" if only else operation)
        self._lever.write_text(words)

    def end(self) -> None:
        """Let the operation be as it was."""
        self._lever.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
