"""Routes of the service itself: the entrance, doctor, /health and /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from yaffle import __version__
from yaffle.api import examples
from yaffle.api.app_context import PREFIX, AppContext
from yaffle.api.dependencies import answers
from yaffle.api.http.fixed_documents import Fixed
from yaffle.api.http.reply import Reply, encode
from yaffle.api.self_health import HealthDocument

if TYPE_CHECKING:
    from yaffle.api.diagnostics.engine_facts import EngineFacts
    from yaffle.api.self_health import Vitals
    from yaffle.engine.runtime.metrics import Metrics

LINKS = (
    "policies",
    "clusters",
    "nodes",
    "incidents",
    "maintenance",
    "stop",
    "events",
    "actions",
    "outbox",
    "hosts",
    "host-notifications",
    "alerts",
    "doctor",
    "engines",
    "openapi.json",
)
LIVE = "/livez"
READY = frozenset({"/health", "/readyz"})
JSON = "application/json"
HEALTH = {
    "status": "pass",
    "version": "1.0",
    "serviceId": "e3c22423-cd7a-47dc-b6e9-e18d1a8b3bdf",
    "description": "yaffle-serve",
    "notes": {"host": "controller-1"},
    "checks": {"engine": {"status": "pass", "time": "2026-10-14T17:46:40+00:00"}},
}


def entrance(parts: AppContext) -> APIRouter:
    """Return the routes under the prefix that speak of the service."""
    router = APIRouter(tags=["service"])
    about = {
        "name": "yaffle",
        "version": __version__,
        "state_dir": str(parts.state_dir),
        "links": {name: f"{PREFIX}/{name}" for name in LINKS},
    }

    own: dict[str, Fixed] = {}

    @router.get("", responses=answers(about))
    async def show_service() -> Response:
        """Say which version this is and where everything else is."""
        return Reply(about)

    @router.get("/openapi.json", responses=answers({"openapi": "3.1.0"}))
    async def show_openapi(request: Request) -> Response:
        """Return this document."""
        made = own.setdefault("document", Fixed(lambda: encode(request.app.openapi()), media=JSON))
        return await made.answer(request)

    @router.get("/doctor", responses=answers(examples.REPORT))
    async def examine() -> Response:
        """Look at everything that healing depends on, and say what to do about what is wrong."""
        report = await parts.doctor.examine()
        return Reply(report.as_json())

    return router


class Told(Protocol):
    """Words of a process about itself."""

    @property
    def facts(self) -> EngineFacts:
        """Return what it has counted, among others."""
        ...

    @property
    def counted(self) -> Metrics:
        """Return what was counted where it listens."""
        ...

    @property
    def vitals(self) -> Vitals:
        """Return how it is."""
        ...


def process(parts: Told) -> APIRouter:
    """Return /health and /metrics, which belong to this process and to no version of the API."""
    router = APIRouter(tags=["process"])

    @router.head("/health", include_in_schema=False)
    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", include_in_schema=False)
    @router.get(
        "/health",
        response_class=HealthDocument,
        responses={
            200: {
                "description": "This process is well, or has warnings.",
                "content": {"application/health+json": {"example": HEALTH}},
            },
            503: {"description": "It is not."},
        },
    )
    async def show_health(request: Request) -> Response:
        """Say whether this very process can do its work (application/health+json).

        `?format=ietf`, `spring`, `prometheus` or `text` is the same in another shape, `/readyz` the
        same at another place.
        """
        return parts.vitals.answer(request)

    @router.head(LIVE, include_in_schema=False)
    @router.get(
        LIVE,
        response_class=PlainTextResponse,
        responses={
            200: {
                "description": "It answers.",
                "content": {"text/plain": {"example": "ok\n"}},
            }
        },
    )
    async def show_live() -> Response:
        """Say that this process answers, whatever it has to say: what does not is started again."""
        return PlainTextResponse("ok\n")

    @router.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={
            200: {
                "description": "Prometheus text.",
                "content": {"text/plain": {"example": "yaffle_nodes_never_seen 0.0\n"}},
            }
        },
    )
    async def show_metrics() -> Response:
        """Return what this process has counted."""
        counted = await parts.facts.metrics() + generate_latest(parts.counted.listener)
        return Response(counted, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router
