"""The OpenAPI 3.1 document of the whole server: the table of routes as it stands, and our own API.

Bodies are described by the very schemas that judge them, so the document cannot say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from yaffle.api import rights
from yaffle.api.clustering import response_schemas
from yaffle.api.clustering.discovery import DISCOVERY
from yaffle.api.clustering.microversion import HEADER, NEWEST, OLDEST
from yaffle.api.clustering.routes import ROUTES
from yaffle.api.clustering.table import PREFIX

if TYPE_CHECKING:
    from yaffle.api.clustering.table import Param, Route
    from yaffle.api.clustering.validation import Body

Document = dict[str, Any]

ABOUT: Final = f"""\
Below `{PREFIX}` is the clustering API, Senlin's v1: microversions {OLDEST} to {NEWEST} in the header
`{HEADER}: clustering X.Y`; without it the newest. Below `/yaffle/v1` is our own: why nodes are left
alone, incidents, maintenance, marks.

Lists are complete unless `limit` is given; page by page, `marker` is the id of the last one seen.
What takes time is answered with 202 and `Location: …/v1/actions/ID`. Objects have no ETags: conditional
requests are not implemented for them, and the last change wins.
"""
COMPONENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Profile": response_schemas.PROFILE,
    "Policy": response_schemas.POLICY,
    "Cluster": response_schemas.CLUSTER,
    "Node": response_schemas.NODE,
    "Action": response_schemas.ACTION,
    "Event": response_schemas.EVENT,
    "ClusterPolicy": response_schemas.BINDING,
    "Service": response_schemas.SERVICE,
    "Started": response_schemas.STARTED,
}
"""Schemas that more than one operation answers with, by the name they get."""
_NAMES: Final = {id(schema): name for name, schema in COMPONENTS.items()}
FAULT: Final = response_schemas.thing(
    {
        "code": response_schemas.INTEGER,
        "title": response_schemas.STRING,
        "explanation": response_schemas.STRING,
        "error": response_schemas.thing(
            {
                "code": response_schemas.INTEGER,
                "message": response_schemas.STRING,
                "type": {
                    **response_schemas.STRING,
                    "description": "A class of errors, such as ResourceNotFound or ActionConflict.",
                },
                "hint": {**response_schemas.STRING, "description": "What to do next."},
                "problems": {
                    "type": "array",
                    "items": response_schemas.STRING,
                    "description": "Every fault of a document, with its place.",
                },
                "title": response_schemas.STRING,
            },
            "hint",
            "problems",
            "type",
            "title",
        ),
    },
    "code",
    "title",
    "explanation",
)
REFUSED: Final[Mapping[str, Any]] = {
    "description": "Refused: 400 wrong, 401 who are you, 403 not allowed, 404 not there, 406 no such"
    " version, 409 not now, 429 too often, 503 the database is away. A page where no route was"
    " reached.",
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/Fault"}},
        "text/html": {"schema": response_schemas.STRING},
    },
}
VERSION: Final[Mapping[str, Any]] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": f"`clustering X.Y` from {OLDEST} to {NEWEST}, or `clustering latest`.",
    "schema": {"type": "string"},
    "example": f"clustering {NEWEST}",
}
_FIELD: Final = re.compile(r"\{(\w+)(?::\w+)?\}")


def whole(own: Document) -> Document:
    """Return the document of everything; `own` describes our own API."""
    components = own.get("components", {})
    return {
        **own,
        "info": {**own["info"], "description": ABOUT},
        "paths": {**_paths(), **own["paths"]},
        "components": {
            **components,
            "schemas": {
                **components.get("schemas", {}),
                **{name: _inside(schema) for name, schema in COMPONENTS.items()},
                "Fault": FAULT,
            },
        },
    }


def _paths() -> Document:
    paths: Document = {}
    for path, operation in _discovered():
        paths[path] = {"get": operation}
    for route in ROUTES:
        path = _FIELD.sub(r"{\1}", PREFIX + route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path)
    return paths


def _discovered() -> Iterator[tuple[str, Document]]:
    for path, (name, text, status) in DISCOVERY.items():
        yield (
            path,
            {
                "operationId": name,
                "summary": text,
                "description": text,
                "tags": ["clustering: versions"],
                "security": [],
                "responses": {
                    str(status): {
                        "description": text,
                        "content": {"application/json": {"schema": response_schemas.MAP}},
                    },
                    "default": REFUSED,
                },
            },
        )


def _operation(route: Route, path: str) -> Document:
    told = " ".join((route.handler.__doc__ or "").split())
    since = f" Since {route.since}." if route.since > OLDEST else ""
    operation: Document = {
        "operationId": route.handler.__name__,
        "summary": told.split(". ")[0].rstrip("."),
        "description": told + since,
        "tags": [f"clustering: {route.tag}"],
        "parameters": list(_parameters(route)),
        "responses": _responses(route),
    }
    if route.since > OLDEST:
        operation["x-since"] = str(route.since)
    if route.body is not None:
        operation["requestBody"] = _body(route.body)
    if rights.needed(route.method, _FIELD.sub("x", path)) == rights.OPEN:
        operation["security"] = []
    return operation


def _parameters(route: Route) -> Iterator[Mapping[str, Any]]:
    for match in _FIELD.finditer(route.path):
        name = match[1]
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PLACES.get(name, f"Id, name, or beginning of the id of the {name}."),
            "schema": {"type": "string", "minLength": 1},
        }
    for param in route.params:
        yield _param(param)
    yield VERSION


_PLACES: Final[Mapping[str, str]] = {
    "type": "`NAME-VERSION` of a type.",
    "path": "A JSONPath into the node as `GET /v1/nodes/ID` shows it, such as `status`.",
    "event": "Id, or beginning of the id, of the event.",
}


def _param(param: Param) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = param.schema
    if param.repeatable:
        schema = {"type": "array", "items": schema}
    return {
        "name": param.name,
        "in": "query",
        "required": False,
        "description": param.text,
        "schema": schema,
    }


def _body(body: Body) -> Document:
    content: Document = {"schema": body.whole}
    if body.examples:
        content["examples"] = {
            f"example {place}": {"value": example} for place, example in enumerate(body.examples, 1)
        }
    return {"required": not body.optional, "content": {"application/json": content}}


def _responses(route: Route) -> Document:
    good: Document = {"description": route.good.text}
    if route.good.schema is not None:
        good["content"] = {route.good.media: {"schema": _named(route.good.schema)}}
    if route.good.status == 202 and route.good.media != "text/html":
        good["headers"] = {
            "Location": {
                "description": "The action that does it.",
                "schema": {"type": "string", "format": "uri"},
            }
        }
    others = {
        str(status): {**REFUSED, "description": text} for status, text in route.errors.items()
    }
    return {str(route.good.status): good, **others, "default": REFUSED}


def _named(schema: object) -> Any:
    """Return a schema in which those with a name are references."""
    name = _NAMES.get(id(schema))
    return {"$ref": f"#/components/schemas/{name}"} if name else _inside(schema)


def _inside(schema: object) -> Any:
    if isinstance(schema, Mapping):
        return {key: _named(value) for key, value in schema.items()}
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return [_named(value) for value in schema]
    return schema
