"""Notifications that wake a reading, as one table: event type, what it is about, seed 1's word.

Nothing here judges. A row without a word says that something has happened which may have made a
node ill or well; only the reading tells which. Types that are not in the table are nobody's news.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Subject(StrEnum):
    """Subject of an event, which is also the shape of its payload."""

    SERVER = "server"
    """Nova's unversioned: `payload.instance_id`."""
    SERVER_OBJECT = "server object"
    """Nova's versioned: `payload.nova_object.data.uuid`."""
    CALL = "call"
    """Nova's error topic: a call that failed, with the server among its arguments."""
    SERVICE = "service"
    """Nova's versioned: a compute service, hence all nodes of its host."""
    STACK = "stack"
    """Heat's: `payload.stack_identity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One event type."""

    subject: Subject
    word: str
    """What must have happened, in seed 1's words; empty where the type does not say."""
    senders: tuple[str, ...]
    """How the publisher's name begins; anybody else's is not ours to hear."""


_SENDERS: Final[Mapping[Subject, tuple[str, ...]]] = MappingProxyType(
    {
        Subject.SERVER: ("compute.", "conductor.", "api.", "scheduler."),
        Subject.SERVER_OBJECT: ("nova-compute:", "nova-conductor:", "nova-api:", "nova-scheduler:"),
        Subject.CALL: ("compute.", "conductor."),
        Subject.SERVICE: ("nova-compute:", "nova-conductor:", "nova-api:"),
        Subject.STACK: ("orchestration.",),
    }
)

# Seed 1, "Listening to Event Notifications": the first five; deletion, which Senlin's code had for
# stacks only, and suspension, which is to a node what a pause is.
_MISHAPS: Final = (
    ("pause.end", "PAUSE"),
    ("power_off.end", "POWER_OFF"),
    ("rebuild.error", "REBUILD"),
    ("shutdown.end", "SHUTDOWN"),
    ("soft_delete.end", "SOFT_DELETE"),
    ("delete.end", "DELETE"),
    ("force_delete.end", "DELETE"),
    ("suspend.end", "SUSPEND"),
)
# What may have made a node well, or taken it away with somebody's knowledge. In both spellings.
_CHANGES: Final = (
    "create.end",
    "create.error",
    "power_on.end",
    "unpause.end",
    "resume.end",
    "restore.end",
    "reboot.end",
    "reboot.error",
    "rebuild.end",
    "evacuate.end",
    "rescue.end",
    "unrescue.end",
    "shelve.end",
    "shelve_offload.end",
    "unshelve.end",
    "update",
)
_OLD_CHANGES: Final = (
    "finish_resize.end",
    "resize.confirm.end",
    "resize.revert.end",
    "live_migration._post.end",
    "live_migration.post.dest.end",
    "live_migration._rollback.end",
    "live_migration.rollback.dest.end",
)
_NEW_CHANGES: Final = (
    "resize_finish.end",
    "resize_confirm.end",
    "resize_revert.end",
    "live_migration_post.end",
    "live_migration_post_dest.end",
    "live_migration_rollback.end",
    "live_migration_rollback_dest.end",
    "live_migration_force_complete.end",
)
# Nova sends no `reboot.error`: the error topic names the method (a failed stop leaves ACTIVE behind).
_CALLS: Final = (
    "reboot_instance",
    "start_instance",
    "stop_instance",
    "rebuild_instance",
    "pause_instance",
    "unpause_instance",
    "suspend_instance",
    "resume_instance",
    "restore_instance",
)
_STACK_VERBS: Final = (
    "create",
    "update",
    "delete",
    "suspend",
    "resume",
    "check",
    "rollback",
    "restore",
    "adopt",
)
_STACK_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"delete.end": "DELETE", "suspend.end": "SUSPEND"}
)


def _row(subject: Subject, word: str = "") -> Row:
    return Row(subject=subject, word=word, senders=_SENDERS[subject])


def _rows() -> Iterator[tuple[str, Row]]:
    for prefix, subject, more in (
        ("compute.instance.", Subject.SERVER, _OLD_CHANGES),
        ("instance.", Subject.SERVER_OBJECT, _NEW_CHANGES),
    ):
        for name, word in _MISHAPS:
            yield prefix + name, _row(subject, word)
        for name in (*_CHANGES, *more):
            yield prefix + name, _row(subject)
    for name in _CALLS:
        yield name, _row(Subject.CALL)
    yield "service.update", _row(Subject.SERVICE)
    for verb in _STACK_VERBS:
        for end in (f"{verb}.end", f"{verb}.error"):
            yield f"orchestration.stack.{end}", _row(Subject.STACK, _STACK_WORDS.get(end, ""))


EVENTS: Final[Mapping[str, Row]] = MappingProxyType(dict(_rows()))
"""By event type, as it stands in the message."""
