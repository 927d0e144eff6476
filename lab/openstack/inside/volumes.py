"""Cinder's volumes as empty files: made, attached and deleted, and nothing is ever written to them.

What Cinder has told a host of a volume, and not taken back, is written down in `ID.hosts`. While there
is a file `slow/OPERATION` in its `state_path`, the operation takes as many seconds as that says at most.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from cinder.volume import driver  # type: ignore[import-not-found,unused-ignore]
from oslo_config import cfg  # type: ignore[import-not-found,import-untyped,unused-ignore]

ROOM_GB = 100_000
LOOK_S = 0.2


class Files(driver.VolumeDriver):  # type: ignore[misc,unused-ignore]
    """One folder, and a file in it for each volume and snapshot."""

    VERSION = "1"

    def do_setup(self, context: Any) -> None:
        """Find the folder."""
        self._folder = Path(cfg.CONF.state_path) / "volumes"

    def check_for_setup_error(self) -> None:
        """Need nothing."""

    def _update_volume_stats(self) -> None:
        self._stats = {
            "volume_backend_name": self.configuration.volume_backend_name,
            "vendor_name": "lab",
            "driver_version": self.VERSION,
            "storage_protocol": "file",
            "total_capacity_gb": ROOM_GB,
            "free_capacity_gb": ROOM_GB,
            "multiattach": True,
        }

    def create_volume(self, volume: Any) -> None:
        """Make one."""
        (self._folder / volume.id).touch()

    def create_volume_from_snapshot(self, volume: Any, snapshot: Any) -> None:
        """Make one."""
        self.create_volume(volume)

    def create_cloned_volume(self, volume: Any, src_vref: Any) -> None:
        """Make one."""
        self.create_volume(volume)

    def clone_image(
        self, context: Any, volume: Any, image_location: Any, image_meta: Any, image_service: Any
    ) -> tuple[dict[str, Any], bool]:
        """Make one that pretends to hold an image."""
        self.create_volume(volume)
        return {}, True

    def copy_image_to_volume(self, *args: Any, **kwargs: Any) -> None:
        """Pretend that it holds another image now."""

    def extend_volume(self, volume: Any, new_size: int) -> None:
        """Be as large as is wanted already."""

    def delete_volume(self, volume: Any) -> None:
        """Remove it."""
        self._be_slow("delete_volume")
        (self._folder / volume.id).unlink(missing_ok=True)
        self._hosts(volume).unlink(missing_ok=True)

    def create_snapshot(self, snapshot: Any) -> None:
        """Make one."""
        (self._folder / snapshot.id).touch()

    def delete_snapshot(self, snapshot: Any) -> None:
        """Remove it."""
        (self._folder / snapshot.id).unlink(missing_ok=True)

    def ensure_export(self, context: Any, volume: Any) -> None:
        """Have nothing to do."""

    def create_export(self, context: Any, volume: Any, connector: Any) -> None:
        """Have nothing to do."""

    def remove_export(self, context: Any, volume: Any) -> None:
        """Have nothing to do."""

    def initialize_connection(self, volume: Any, connector: Any, **kwargs: Any) -> dict[str, Any]:
        """Tell a host where the volume is."""
        hosts = {*self._known(volume), connector["host"]}
        self._hosts(volume).write_text(json.dumps(sorted(hosts)))
        data = {"device_path": str(self._folder / volume.id), "volume_id": volume.id}
        return {"driver_volume_type": "fake", "data": data}

    def terminate_connection(self, volume: Any, connector: Any, **kwargs: Any) -> None:
        """Take that back; without a host, from all of them."""
        self._be_slow("terminate_connection")
        left = {*self._known(volume)} - {connector["host"]} if connector else set()
        self._hosts(volume).write_text(json.dumps(sorted(left)))

    def _be_slow(self, operation: str) -> None:
        began_s, lever = time.monotonic(), self._folder.parent / "slow" / operation
        with contextlib.suppress(FileNotFoundError):
            while (left_s := began_s + float(lever.read_text()) - time.monotonic()) > 0:
                time.sleep(min(LOOK_S, left_s))

    def _hosts(self, volume: Any) -> Path:
        return self._folder / f"{volume.id}.hosts"

    def _known(self, volume: Any) -> list[str]:
        try:
            found: list[str] = json.loads(self._hosts(volume).read_text())
        except FileNotFoundError:
            return []
        return found
