"""Request bodies of the instance-HA API: their schemas, and the one way in which they are judged.

Messages are those that Masakari's clients know.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jsonschema import Draft4Validator, FormatChecker

from yaffle.api.clustering.microversion import Microversion
from yaffle.api.clustering.times import us_of
from yaffle.api.clustering.validation import TOO_DEEP, Body, shallow
from yaffle.errors import BadRequest
from yaffle.model.instance_ha import NotificationType, RecoveryMethod

if TYPE_CHECKING:
    from yaffle.api.clustering.validation import Schema

ENABLED: Final = "enabled"
ENABLED_SINCE: Final = Microversion(1, 2)
TRUE: Final = (True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes")
FALSE: Final = (False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no")
NAME_FORM: Final = "printable characters. Can not start or end with whitespace."

BOOLEAN: Final[Schema] = {"type": ["boolean", "string"], "enum": [*TRUE, *FALSE]}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 255, "format": "name"}
TEXT: Final[Schema] = {"type": ["string", "null"], "format": "text"}
KIND: Final[Schema] = {"type": ["string", "null"], "maxLength": 255, "pattern": "^[a-zA-Z0-9]*$"}
SHORT: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 255}
EVENT: Final[Schema] = {"enum": ("STARTED", "STOPPED"), "type": "string"}

SEGMENT: Final[Schema] = {
    "name": NAME,
    "description": TEXT,
    "recovery_method": {"type": "string", "enum": [method.value for method in RecoveryMethod]},
    "service_type": NAME,
    ENABLED: {**BOOLEAN, "description": f"Since {ENABLED_SINCE}."},
}
HOST: Final[Schema] = {
    "name": NAME,
    "type": KIND,
    "control_attributes": TEXT,
    "reserved": BOOLEAN,
    "on_maintenance": BOOLEAN,
}


def _told(properties: Schema, *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _created(properties: Schema, *required: str) -> dict[str, Any]:
    """Return the same in another order: of several faults the first one is told."""
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(required),
    }


def _changed(properties: Schema) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "anyOf": [{"required": [name]} for name in properties],
    }


NEW_SEGMENT: Final = Body(
    wrapper="segment",
    schema=_created(SEGMENT, "name", "recovery_method", "service_type"),
    examples=[{"segment": {"name": "s", "recovery_method": "auto", "service_type": "COMPUTE"}}],
)
CHANGED_SEGMENT: Final = Body(
    wrapper="segment", schema=_changed(SEGMENT), examples=[{"segment": {"description": "rack 7"}}]
)
NEW_HOST: Final = Body(
    wrapper="host",
    schema=_created(HOST, "name", "type", "control_attributes"),
    examples=[{"host": {"name": "cmp1", "type": "COMPUTE", "control_attributes": "SSH"}}],
)
CHANGED_HOST: Final = Body(
    wrapper="host", schema=_changed(HOST), examples=[{"host": {"on_maintenance": False}}]
)
NEW_NOTIFICATION: Final = Body(
    wrapper="notification",
    schema=_told(
        {
            "type": {"type": "string", "enum": tuple(kind.value for kind in NotificationType)},
            "hostname": {**SHORT, "pattern": "^[a-zA-Z0-9-._]*$"},
            "generated_time": {"type": "string", "format": "date-time"},
            "payload": {
                "type": "object",
                "patternProperties": {
                    "^[a-zA-Z0-9-_:. ]{1,255}$": {"type": "string", "maxLength": 255}
                },
                "additionalProperties": False,
            },
        },
        "type",
        "hostname",
        "generated_time",
        "payload",
    ),
    examples=[
        {
            "notification": {
                "type": "COMPUTE_HOST",
                "hostname": "cmp1",
                "generated_time": "2026-11-29T10:00:00Z",
                "payload": {
                    "event": "STOPPED",
                    "host_status": "NORMAL",
                    "cluster_status": "OFFLINE",
                },
            }
        }
    ],
)
PAYLOADS: Final[Mapping[NotificationType, Schema]] = {
    NotificationType.COMPUTE_HOST: _told(
        {
            "host_status": {"enum": ("NORMAL", "UNKNOWN"), "type": "string"},
            "cluster_status": {"enum": ("ONLINE", "OFFLINE"), "type": "string"},
            "event": EVENT,
        },
        "event",
    ),
    NotificationType.PROCESS: _told(
        {"process_name": {**SHORT, "maxLength": 4096}, "event": EVENT}, "process_name", "event"
    ),
    NotificationType.VM: _told(
        {
            "instance_uuid": {"type": "string", "format": "uuid"},
            "vir_domain_event": SHORT,
            "event": SHORT,
        },
        "instance_uuid",
        "vir_domain_event",
        "event",
    ),
}

_FORMATS: Final = FormatChecker(formats=())
_YEAR: Final = re.compile(r"[0-9]{4}", re.ASCII)
_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}", re.ASCII)


def _printable(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] != "C" and (category[0] != "Z" or category == "Zs")


@_FORMATS.checks("name")
def _is_name(value: object) -> bool:
    return not isinstance(value, str) or (
        all(map(_printable, value)) and value == value.strip() and bool(value)
    )


@_FORMATS.checks("text")
def _is_text(value: object) -> bool:
    return not isinstance(value, str) or all(_printable(c) or c == "\n" for c in value)


def time_us(text: str) -> int:
    """Return the time that a client has written; a year or a month is its beginning, as in Masakari.

    Raises ValueError for what is none, and for what was before 1970.
    """
    if _YEAR.fullmatch(text):
        text += "-01"
    if _MONTH.fullmatch(text):
        text += "-01"
    found = us_of(text)
    if found < 0:
        raise ValueError(text)
    return found


@_FORMATS.checks("date-time", raises=(ValueError, OverflowError))
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or time_us(value) >= 0


@_FORMATS.checks("uuid", raises=ValueError)
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or bool(uuid.UUID(value))


def read(body: Body, raw: bytes, version: Microversion) -> Mapping[str, object]:
    """Return what the wrapper of a body holds; raise BadRequest for what breaks its schema."""
    whole = check(_as_of(body, version), _parsed(raw))
    inner = whole[body.wrapper]
    assert isinstance(inner, Mapping)  # noqa: S101 - so says the schema
    return inner


def check(schema: Schema, value: object) -> Mapping[str, object]:
    """Return an object that satisfies the schema; raise BadRequest for any other value."""
    validator = Draft4Validator(dict(schema), format_checker=_FORMATS)
    # The first of them, as Masakari: schemas are in its order.
    found = next(validator.iter_errors(value), None)
    if found is not None:
        if found.validator == "format" and found.validator_value == "name":
            raise BadRequest(f"An invalid 'name' value was provided. The name must be: {NAME_FORM}")
        place = found.path[-1] if found.path else None
        said = found.message
        if place is not None:
            said = f"Invalid input for field/attribute {place}. Value: {found.instance}. {said}"
        raise BadRequest(said)
    assert isinstance(value, Mapping)  # noqa: S101 - so say the schemas
    return value


def boolean(value: object) -> bool:
    """Return what one of the words of a boolean says."""
    return value in TRUE


def _as_of(body: Body, version: Microversion) -> Schema:
    """Return the schema of the whole body, without what the version does not know yet."""
    schema = dict(body.schema)
    if version < ENABLED_SINCE and ENABLED in schema["properties"]:
        schema["properties"] = {k: v for k, v in schema["properties"].items() if k != ENABLED}
        if "anyOf" in schema:
            schema["anyOf"] = [one for one in schema["anyOf"] if one["required"] != [ENABLED]]
    return {
        "type": "object",
        "properties": {body.wrapper: schema},
        "required": [body.wrapper],
        "additionalProperties": False,
    }


def _parsed(raw: bytes) -> object:
    if not raw:
        return None
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise BadRequest("Malformed request body") from None
    if not shallow(value):
        raise BadRequest(TOO_DEEP)
    return value
