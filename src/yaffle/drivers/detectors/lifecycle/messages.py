"""Reads one notification as it lies in the queue: the few fields that we need, and nothing else of it.

A notification may hold a user's token (Nova's error topic does), so that no body, and no part of one
that we did not ask for, ever reaches a log. Whatever cannot be read is a value (`Ignored.POISON`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec

from yaffle.drivers.detectors.lifecycle.events import EVENTS, Row, Subject
from yaffle.model.msgspec_init import UNREADABLE

BODY_MAX: Final = 4_194_304
"""Larger ones are not read; a real one has some kilobytes."""
_TEXT_MAX: Final = 200
CLUSTER_NODE: Final = "cluster_node_id"
"""The name under which engines write on a copy whose it is."""

T = TypeVar("T")


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a notification; a reason to look, never a verdict."""

    event: str
    word: str
    """Seed 1's word, empty where the type has none."""
    subject: Subject
    ident: str
    """Physical id of the server or the stack, empty for a service."""
    node_id: str = ""
    """Of the server's metadata or the stack's tags, where an engine left it."""
    host: str = ""
    """The server's host or the service's; empty where unknown."""
    state: str = ""
    publisher: str = ""
    sent_at: str = ""
    request_id: str = ""
    user: str = ""
    """Who asked for it (Nova's `action_initiator_user`, Heat's `user_identity`); empty where nobody did,
    or it is not told."""
    project: str = ""


class Ignored(StrEnum):
    """Why a message is nobody's news; a metric's label."""

    UNKNOWN = "unknown_type"
    STRANGER = "unexpected_publisher"
    """Who sends it does not send such."""
    STEP = "task_step"
    """A task that goes on is one step further."""
    POISON = "unreadable"


class _Envelope(msgspec.Struct):
    message: str | None = msgspec.field(name="oslo.message", default=None)


class _Message(msgspec.Struct):
    event_type: str
    publisher_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")
    timestamp: str | None = None
    request_id: str | None = msgspec.field(name="_context_request_id", default=None)
    user: str | None = msgspec.field(name="_context_user_id", default=None)
    project: str | None = msgspec.field(name="_context_project_id", default=None)


class _Object(msgspec.Struct, Generic[T]):
    data: T = msgspec.field(name="nova_object.data")


class _Metadata(msgspec.Struct):
    cluster_node_id: str = ""


class _States(msgspec.Struct):
    state: str | None = None
    old_state: str | None = None
    new_task_state: str | None = None


class _Server(msgspec.Struct):
    ident: str = msgspec.field(name="instance_id")
    host: str | None = None
    state: str | None = None
    # Nova before 2012 sent a list; we care for neither of its shapes.
    metadata: _Metadata | list[msgspec.Raw] | None = None
    old_state: str | None = None
    new_task_state: str | None = None


class _ServerObject(msgspec.Struct):
    uuid: str
    host: str | None = None
    state: str | None = None
    metadata: _Metadata | None = None
    request_id: str | None = None
    action_initiator_user: str | None = None
    action_initiator_project: str | None = None
    state_update: _Object[_States] | None = None


class _Service(msgspec.Struct):
    host: str
    binary: str = "nova-compute"


class _Instance(msgspec.Struct):
    uuid: str
    host: str | None = None


class _Arguments(msgspec.Struct):
    # As an object of its own, or as it is serialized for a call.
    instance: _Instance | msgspec.UnsetType = msgspec.UNSET


class _Call(msgspec.Struct):
    args: _Arguments


class _Stack(msgspec.Struct):
    stack_identity: str
    state: str | None = None
    tags: list[str] | None = None
    # The id; what Heat calls `user_id` is a name.
    user_identity: str | None = None
    tenant_id: str | None = None

    @property
    def node_id(self) -> str:
        """Whose copy the stack is, by the mark that an engine left on it."""
        mark = f"{CLUSTER_NODE}="
        return next((t[len(mark) :] for t in self.tags or () if t.startswith(mark)), "")


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_SERVER: Final = msgspec.json.Decoder(_Server)
_SERVER_OBJECT: Final = msgspec.json.Decoder(_Object[_ServerObject])
_SERVICE: Final = msgspec.json.Decoder(_Object[_Service])
_CALL: Final = msgspec.json.Decoder(_Call)
_STACK: Final = msgspec.json.Decoder(_Stack)


def read(body: bytes) -> Heard | Ignored:
    """Return what the message says, or why it says nothing to us; never raises."""
    if len(body) > BODY_MAX:
        return Ignored.POISON
    try:
        # oslo.messaging 2.0 wraps the message, as a text of JSON, into another one.
        inner = _ENVELOPE.decode(body).message
        message = _MESSAGE.decode(body if inner is None else inner)
        row = EVENTS.get(message.event_type)
        if row is None:
            return Ignored.UNKNOWN
        if not message.publisher_id.startswith(row.senders):
            return Ignored.STRANGER
        return _heard(message, row)
    except UNREADABLE:
        return Ignored.POISON


def _heard(message: _Message, row: Row) -> Heard | Ignored:
    match row.subject:
        case Subject.SERVER:
            return _server(message, row)
        case Subject.SERVER_OBJECT:
            return _server_object(message, row)
        case Subject.CALL:
            instance = _CALL.decode(message.payload).args.instance
            if not isinstance(instance, _Instance):
                return Ignored.UNKNOWN
            return _told(message, row, instance.uuid, host=instance.host)
        case Subject.SERVICE:
            service = _SERVICE.decode(message.payload).data
            if service.binary != "nova-compute":
                return Ignored.UNKNOWN
            return _told(message, row, "", host=service.host)
        case Subject.STACK:
            stack = _STACK.decode(message.payload)
            # arn:openstack:heat::PROJECT:stacks/NAME/ID
            return _told(
                message,
                row,
                stack.stack_identity.rpartition("/")[2],
                state=stack.state,
                node_id=stack.node_id,
                by=(stack.user_identity, stack.tenant_id),
            )


def _server(message: _Message, row: Row) -> Heard | Ignored:
    server = _SERVER.decode(message.payload)
    if _is_step(message, server.state, server.old_state, server.new_task_state):
        return Ignored.STEP
    return _told(
        message,
        row,
        server.ident,
        host=server.host,
        state=server.state,
        node_id=_node_of(server.metadata),
    )


def _server_object(message: _Message, row: Row) -> Heard | Ignored:
    server = _SERVER_OBJECT.decode(message.payload).data
    if server.state_update is not None:
        change = server.state_update.data
        if _is_step(message, change.state, change.old_state, change.new_task_state):
            return Ignored.STEP
    return _told(
        message,
        row,
        server.uuid,
        host=server.host,
        state=server.state,
        node_id=_node_of(server.metadata),
        request_id=server.request_id,
        by=(server.action_initiator_user, server.action_initiator_project),
    )


def _node_of(metadata: _Metadata | list[msgspec.Raw] | None) -> str:
    return metadata.cluster_node_id if isinstance(metadata, _Metadata) else ""


def _is_step(message: _Message, state: str | None, before: str | None, task: str | None) -> bool:
    """Whether an update only says how far a task is; its end, or none at all, is worth a look.

    A guest that is gone, or paused behind Nova's back, shows in updates without a task alone.
    """
    return message.event_type.endswith("instance.update") and bool(task) and state == before


def _told(
    message: _Message,
    row: Row,
    ident: str,
    *,
    host: str | None = None,
    state: str | None = None,
    node_id: str = "",
    request_id: str | None = None,
    by: tuple[str | None, str | None] | None = None,
) -> Heard:
    user, project = by or (message.user, message.project)
    return Heard(
        event=message.event_type,
        word=row.word,
        subject=row.subject,
        ident=_short(ident),
        node_id=_short(node_id),
        host=_short(host),
        state=_short(state),
        publisher=_short(message.publisher_id),
        sent_at=_short(message.timestamp),
        request_id=_short(request_id or message.request_id),
        user=_short(user),
        project=_short(project),
    )


def _short(text: str | None) -> str:
    return "".join(c for c in text[:_TEXT_MAX] if c.isprintable()) if text else ""
