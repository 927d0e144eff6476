"""Cinder's API in our words: what there is of volumes; nothing is ever asked of it but that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from yaffle.errors import Forbidden

if TYPE_CHECKING:
    from yaffle.integrations.openstack import Client

STORAGE: Final = "block-storage"
"""Its type in the catalog; it is found by its older names, `volumev3` …, as well."""
_VERSION: Final = "/v3"


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """The server and device that a volume is attached to."""

    server_id: str | None = None
    attachment_id: str = ""


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume."""

    id: str
    status: str
    size: int = 0
    """GiB."""
    multiattach: bool = False
    attachments: list[Attachment] = msgspec.field(default_factory=list)
    bootable: str = ""
    """Words: `true` or `false`."""
    snapshot_id: str | None = None
    source_volid: str | None = None
    """The volume that it is a copy of, as that was then."""
    image: dict[str, object] = msgspec.field(name="volume_image_metadata", default_factory=dict)
    """What it knows of the image that it, or what it was copied from, was made from; else nothing."""

    @property
    def image_id(self) -> str:
        """The id of the image that the volume was made from; empty where it was not."""
        return str(self.image.get("image_id") or "")


class VolumeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /volumes/ID`."""

    volume: Volume


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A volume as it once was."""

    id: str
    status: str


class SnapshotDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /snapshots/ID`."""

    snapshot: Snapshot


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A project's limits and use of volumes; below zero: unlimited."""

    volumes: int = msgspec.field(name="maxTotalVolumes")
    volumes_used: int = msgspec.field(name="totalVolumesUsed")
    gigabytes: int = msgspec.field(name="maxTotalVolumeGigabytes")
    gigabytes_used: int = msgspec.field(name="totalGigabytesUsed")


class AbsoluteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a project, as against the pace of its requests."""

    absolute: Limits


class LimitsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /limits`."""

    limits: AbsoluteLimits


def volume(client: Client, ident: str) -> Volume:
    """Return a volume; NotFound where it is gone, Forbidden where the catalog has no Cinder."""
    return client.get(STORAGE, _path(client, f"/volumes/{ident}")).parsed(VolumeDocument).volume


def snapshot(client: Client, ident: str) -> Snapshot:
    """Return a snapshot, as `volume` does a volume."""
    answer = client.get(STORAGE, _path(client, f"/snapshots/{ident}"))
    return answer.parsed(SnapshotDocument).snapshot


def limits(client: Client) -> Limits:
    """Return what our project may have, and has; Forbidden where the catalog has no Cinder."""
    return client.get(STORAGE, _path(client, "/limits")).parsed(LimitsDocument).limits.absolute


def _path(client: Client, path: str) -> str:
    """Return the path from where the catalog says that Cinder is: it may name version and project."""
    place, project = client.place(STORAGE).rstrip("/"), client.project_id
    if not place:
        raise Forbidden("the catalog has no Cinder")
    if place.endswith(project):
        return path
    return f"/{project}{path}" if place.endswith(_VERSION) else f"{_VERSION}/{project}{path}"
