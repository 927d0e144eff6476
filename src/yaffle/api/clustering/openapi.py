"""The OpenAPI 3.1 document of the whole server: the tables of routes as they stand, and our own API.

Bodies are described by the very schemas that judge them, so the document cannot say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from yaffle.api import rights
from yaffle.api.clustering import response_schemas
from yaffle.api.clustering.discovery import DISCOVERY
from yaffle.api.clustering.microversion import HEADER, NEWEST, OLDEST
from yaffle.api.clustering.routes import ROUTES
from yaffle.api.clustering.table import FACE, PREFIX

if TYPE_CHECKING:
    from yaffle.api.clustering.table import Face, Param, Route
    from yaffle.api.clustering.validation import Body, Schema

Document = dict[str, Any]

ABOUT: Final = f"""\
Below `{PREFIX}` is the clustering API, Senlin's v1: microversions {OLDEST} to {NEWEST} in the header
`{HEADER}: clustering X.Y`; without it the newest. Below `/instance-ha/v1` is the instance-HA API,
Masakari's v1: in the same header `instance-ha X.Y`; without it the oldest. Below `/yaffle/v1` is our own:
why nodes are left alone, incidents, maintenance, marks.

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
REFUSED: Final = (
    "Refused: 400 wrong, 401 who are you, 403 not allowed, 404 not there, 406 no such version, 409 not"
    " now, 429 too often, 503 the database is away. A page where no route was reached."
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """An API of another project, as the document tells of it."""

    label: str
    """What its tags begin with."""
    face: Face
    routes: Sequence[Route]
    discovery: Mapping[str, tuple[str, str, int]]
    components: Mapping[str, Schema]
    """Schemas that more than one operation answers with, by the name they get."""
    fault: tuple[str, Schema]
    """Name and schema of a refusal."""

    @property
    def refused(self) -> Document:
        """The answer of every refusal."""
        name, _ = self.fault
        return {
            "description": REFUSED,
            "content": {
                "application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}},
                "text/html": {"schema": response_schemas.STRING},
            },
        }

    @property
    def version(self) -> Document:
        """The parameter that says which version is spoken."""
        spoken = self.face.spoken
        return {
            "name": HEADER,
            "in": "header",
            "required": False,
            "description": f"`{spoken.service} X.Y` from {spoken.oldest} to {spoken.newest}, or"
            f" `{spoken.service} latest`.",
            "schema": {"type": "string"},
            "example": f"{spoken.service} {spoken.newest}",
        }


CLUSTERING: Final = Chapter(
    label="clustering",
    face=FACE,
    routes=ROUTES,
    discovery=DISCOVERY,
    components=COMPONENTS,
    fault=("Fault", FAULT),
)
_FIELD: Final = re.compile(r"\{(\w+)(?::\w+)?\}")


def whole(own: Document, also: Sequence[Chapter] = ()) -> Document:
    """Return the document of everything; `own` describes our own API, `also` those of others."""
    components = own.get("components", {})
    chapters = (CLUSTERING, *also)
    paths: Document = {}
    schemas: Document = dict(components.get("schemas", {}))
    for chapter in chapters:
        told = _Told(chapter)
        paths |= told.paths()
        schemas |= told.schemas()
    return {
        **own,
        "info": {**own["info"], "description": ABOUT},
        "paths": {**paths, **own["paths"]},
        "components": {**components, "schemas": schemas},
    }


class _Told:
    """One chapter, being told."""

    def __init__(self, chapter: Chapter) -> None:
        self._chapter = chapter
        self._names = {id(schema): name for name, schema in chapter.components.items()}

    def paths(self) -> Document:
        """Return the operations by their paths."""
        prefix = self._chapter.face.prefix
        paths: Document = {path: {"get": operation} for path, operation in self._discovered()}
        for route in self._chapter.routes:
            path = _FIELD.sub(r"{\1}", prefix + route.path)
            paths.setdefault(path, {})[route.method.lower()] = self._operation(route, path)
        return paths

    def schemas(self) -> Document:
        """Return the schemas that operations refer to."""
        name, fault = self._chapter.fault
        known = {word: self._inside(schema) for word, schema in self._chapter.components.items()}
        return {**known, name: fault}

    def _discovered(self) -> Iterator[tuple[str, Document]]:
        for path, (name, text, status) in self._chapter.discovery.items():
            shown = {"application/json": {"schema": response_schemas.MAP}}
            yield (
                path,
                {
                    "operationId": name,
                    "summary": text,
                    "description": text,
                    "tags": [f"{self._chapter.label}: versions"],
                    "security": [],
                    "responses": {
                        str(status): {"description": text, "content": shown},
                        "default": self._chapter.refused,
                    },
                },
            )

    def _operation(self, route: Route, path: str) -> Document:
        told = " ".join((route.handler.__doc__ or "").split())
        since = f" Since {route.since}." if route.since > OLDEST else ""
        operation: Document = {
            "operationId": route.handler.__name__,
            "summary": told.split(". ")[0].rstrip("."),
            "description": told + since,
            "tags": [f"{self._chapter.label}: {route.tag}"],
            "parameters": [*_parameters(route), self._chapter.version],
            "responses": self._responses(route),
        }
        if route.since > OLDEST:
            operation["x-since"] = str(route.since)
        if route.body is not None:
            operation["requestBody"] = _body(route.body)
        if rights.needed(route.method, _FIELD.sub("x", path)) == rights.OPEN:
            operation["security"] = []
        return operation

    def _responses(self, route: Route) -> Document:
        good: Document = {"description": route.good.text}
        if route.good.schema is not None:
            good["content"] = {route.good.media: {"schema": self._named(route.good.schema)}}
        if route.good.status == 202 and self._chapter is CLUSTERING:
            good["headers"] = {
                "Location": {
                    "description": "The action that does it.",
                    "schema": {"type": "string", "format": "uri"},
                }
            }
        refused = self._chapter.refused
        others = {
            str(status): {**refused, "description": text} for status, text in route.errors.items()
        }
        return {str(route.good.status): good, **others, "default": refused}

    def _named(self, schema: object) -> Any:
        """Return a schema in which those with a name are references."""
        name = self._names.get(id(schema))
        return {"$ref": f"#/components/schemas/{name}"} if name else self._inside(schema)

    def _inside(self, schema: object) -> Any:
        if isinstance(schema, Mapping):
            return {key: self._named(value) for key, value in schema.items()}
        if isinstance(schema, Sequence) and not isinstance(schema, str):
            return [self._named(value) for value in schema]
        return schema


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
