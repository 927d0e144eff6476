"""Request bodies are judged by the same JSON Schemas that the OpenAPI document shows.

Messages are the ones that Senlin's clients and tests know. A body that does not begin with `{` is
ignored, as there, so a missing key is what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend

from yaffle.api.clustering.errors import HTTPBadRequest

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Schema = Mapping[str, Any]

_FIRST: Final = "A-Za-z0-9\u4e00-\u9fa5._~"
NAME_PATTERN: Final = f"^([{_FIRST}][{_FIRST}-]*)?$"
"""No dash in front: names stand in command lines, and in advice that is pasted into them."""
NUMBER_PATTERN: Final = "^-?[0-9]{1,18}$"
BOOLEAN_PATTERN: Final = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"
DEPTH_MAX: Final = 50
TOO_DEEP: Final = f"The body is nested more than {DEPTH_MAX} levels deep."


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body that a route wants: `schema` of what the wrapper key holds, or of the whole body."""

    schema: Schema
    wrapper: str = ""
    missing: str = "Request body missing '{0}' key."
    optional: bool = False
    """Whether the request may come without."""
    by_handler: bool = False
    """The handler judges it, key by key, in words of its own."""
    examples: Sequence[object] = ()

    @property
    def whole(self) -> Schema:
        """The schema of the body as it is sent."""
        if not self.wrapper:
            return self.schema
        return {
            "type": "object",
            "properties": {self.wrapper: self.schema},
            "required": [self.wrapper],
            "additionalProperties": False,
        }


def created(wrapper: str, schema: Schema, *examples: object) -> Body:
    """Return the body of a request that creates something."""
    return Body(schema=schema, wrapper=wrapper, examples=[{wrapper: e} for e in examples])


def changed(wrapper: str, schema: Schema, *examples: object) -> Body:
    """Return the body of a request that changes something."""
    return Body(
        schema=schema,
        wrapper=wrapper,
        missing="Malformed request data, missing '{0}' key in request body.",
        examples=[{wrapper: e} for e in examples],
    )


def read(body: Body, raw: bytes) -> Mapping[str, object]:
    """Return what the wrapper holds, or the whole; raise HTTPBadRequest for what breaks the schema."""
    value = _parsed(raw)
    if body.by_handler:
        return value
    if not body.wrapper:
        return check(body.schema, value)
    if body.wrapper not in value:
        if body.optional and not value:
            return {}
        raise HTTPBadRequest(body.missing.format(body.wrapper))
    inner = check(body.whole, value)[body.wrapper]
    assert isinstance(inner, Mapping)  # noqa: S101 - so says the schema
    return inner


def _parsed(raw: bytes) -> dict[str, object]:
    if not raw.lstrip().startswith(b"{"):
        return {}
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise HTTPBadRequest(f"The body is no JSON: {error}") from None
    if not shallow(value):
        raise HTTPBadRequest(TOO_DEEP)
    assert isinstance(value, dict)  # noqa: S101 - it began with a brace
    return value


def shallow(value: object, left: int = DEPTH_MAX) -> bool:
    """Whether JSON is nested no deeper than a schema may follow it."""
    if not isinstance(value, (dict, list)):
        return True
    items = value.values() if isinstance(value, dict) else value
    return left > 0 and all(shallow(item, left - 1) for item in items)


def check(schema: Schema, value: object) -> Mapping[str, object]:
    """Return an object that satisfies `schema`, numbers and booleans in their own types."""
    plain = _plain(schema, value)
    found = best_match(_Validator(dict(schema)).iter_errors(plain))
    if found is not None:
        raise HTTPBadRequest(_said(found), hint=_hint(found))
    if not isinstance(plain, Mapping):
        raise HTTPBadRequest("The data provided is not a map")
    return plain


def _plain(schema: Schema, value: object) -> object:
    """Return `value` with "3" as 3 and "True" as true where the schema wants those.

    python-senlinclient sends the numbers of its command line as text.
    """
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return {k: _plain(known.get(k, {}), v) for k, v in value.items()}
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str) and re.fullmatch(pattern, value):
        if pattern == NUMBER_PATTERN:
            return int(value)
        if pattern == BOOLEAN_PATTERN:
            return value.lower() == "true"
    if isinstance(value, float) and pattern == NUMBER_PATTERN and value.is_integer():
        return int(value)
    return value


def _pattern(
    _validator: Validator, pattern: str, value: object, _schema: Schema
) -> Iterator[ValidationError]:
    # `$` of Python lets a final newline through, that of JSON Schema does not.
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator: Final = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


def _said(fault: ValidationError) -> str:
    words = [str(part) for part in fault.absolute_path if isinstance(part, str)]
    field = words[-1] if words else "body"
    limit: Any = fault.validator_value
    simple = {
        "minimum": f"Value must be >= {limit} for field '{field}'.",
        "maximum": f"Value must be <= {limit} for field '{field}'.",
        "minItems": f"Value for '{field}' must have at least {limit} item(s).",
        "uniqueItems": f"Items for '{field}' must be unique",
        "minLength": f"The value for the {field} field must have at least {limit} characters.",
        "maxLength": f"The value for the {field} field must have at most {limit} characters.",
    }
    match fault.validator:
        case str() as keyword if keyword in simple:
            return simple[keyword]
        case "enum":
            return f"Value {fault.instance!r:.200} is not acceptable for field '{field}'."
        case "pattern":
            return _form(field, fault)
        case "required":
            return _missing(fault)
        case "type":
            return _kind(field, [limit] if isinstance(limit, str) else list(limit), fault)
        case _:
            return str(fault.message)


def _hint(fault: ValidationError) -> str:
    """Return what it may be, where that is a list of words."""
    if fault.validator != "enum":
        return ""
    known: Any = fault.validator_value
    return f"it is one of {', '.join(str(v) for v in known if v is not None)}"


def _missing(fault: ValidationError) -> str:
    """A list that must not be empty and is not there is told like one that is empty."""
    required: Any = fault.validator_value
    given: Any = fault.instance
    schema: Any = fault.schema
    name = next(name for name in required if name not in given)
    least = schema.get("properties", {}).get(name, {}).get("minItems")
    if least is None:
        return str(fault.message)
    return f"Value for '{name}' must have at least {least} item(s)."


def _form(field: str, fault: ValidationError) -> str:
    given = str(fault.instance)[:255]
    if fault.validator_value == NAME_PATTERN:
        return (
            f"The value for the '{field}' ({given}) contains illegal characters. It must contain"
            ' only alphanumeric or "_-.~" characters and must start with letter.'
        )
    if fault.validator_value == NUMBER_PATTERN:
        return f"The value for {field} must be an integer: '{given}'."
    if fault.validator_value == BOOLEAN_PATTERN:
        return f"Invalid value '{given}' specified for '{field}'"
    return str(fault.message)


def _kind(field: str, kinds: Sequence[str], fault: ValidationError) -> str:
    if kinds[0] == "object":
        return "The data provided is not a map"
    return f"The value for '{field}' has to be of type {kinds[0]}, not {fault.instance!r:.200}."
