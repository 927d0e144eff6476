"""What other monitors tell of hosts, instances and processes, in the words of Masakari's API."""

from __future__ import annotations

from enum import StrEnum


class NotificationType(StrEnum):
    """What a notification is about."""

    COMPUTE_HOST = "COMPUTE_HOST"
    VM = "VM"
    PROCESS = "PROCESS"


class NotificationStatus(StrEnum):
    """How far a notification is."""

    NEW = "new"
    RUNNING = "running"
    ERROR = "error"
    """Never ours: a recovery that failed is tried again while the notification runs."""
    FAILED = "failed"
    IGNORED = "ignored"
    FINISHED = "finished"


UNDER_WAY = (NotificationStatus.NEW, NotificationStatus.RUNNING)
"""While one of its notifications is, a segment and its hosts are not changed."""


class RecoveryMethod(StrEnum):
    """How the hosts of a segment are to be recovered."""

    AUTO = "auto"
    RESERVED_HOST = "reserved_host"
    AUTO_PRIORITY = "auto_priority"
    RH_PRIORITY = "rh_priority"


class MoveStatus(StrEnum):
    """How far an instance of a failed host is."""

    PENDING = "pending"
    ONGOING = "ongoing"
    IGNORED = "ignored"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class NotificationOrigin(StrEnum):
    """By which API a notification came."""

    INSTANCE_HA = "instance-ha"
    REFUSED = "refused"
    """By Masakari's API, and refused as its host was on maintenance; that it is back counts as a word."""
    HOST_FAILURES = "host-failures"
    """Seed 3's own JSON, signed."""


STOPPED = "STOPPED"
STARTED = "STARTED"
NORMAL = "NORMAL"
"""The `host_status` of a host whose power its monitor could ask: STOPPED then says that it is off."""
