"""The OpenAPI document says what really happens: faults are 400 in our envelope, never 422."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

if TYPE_CHECKING:
    from fastapi import FastAPI

ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "title", "type", "message", "problems", "request_id"],
            "properties": {
                "code": {"type": "integer"},
                "title": {"type": "string"},
                "type": {"type": "string"},
                "message": {"type": "string"},
                "problems": {"type": "array", "items": {"type": "string"}},
                "request_id": {"type": "string"},
            },
        }
    },
    "example": {
        "error": {
            "code": 400,
            "title": "Bad Request",
            "type": "InvalidSpec",
            "message": "size: Input should be a valid integer",
            "problems": ["size: Input should be a valid integer"],
            "request_id": "req-7c0b2f6e-3d55-4f0c-9f0d-0a4b7b1c7d11",
        }
    },
}
REFUSED: dict[str, Any] = {
    "description": "Refused: 400 wrong, 401 no token, 403 not allowed, 404 unknown, 409 not now,"
    " 413 too large, 415 no JSON, 421 unknown host, 503 the database is away.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


def describe(app: FastAPI) -> None:
    """Make `app.openapi()` return the document, built once."""
    built: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not built:
            built.update(_document(app))
        return built

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Error"] = ERROR
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = REFUSED
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "server.token_file"},
        "password": {"type": "http", "scheme": "basic", "description": "server.users_file"},
    }
    document["security"] = [{"token": []}, {"password": []}, {}]
    return document
