"""HTTP/1.x as far as a health endpoint needs it, without a socket: bytes in, an answer out."""

from __future__ import annotations

from yaffle_health.http.answer import Options, Question, answer, respond, route
from yaffle_health.http.request import Refusal, Request, parse
from yaffle_health.http.response import Response, refused

__all__ = [
    "Options",
    "Question",
    "Refusal",
    "Request",
    "Response",
    "answer",
    "parse",
    "refused",
    "respond",
    "route",
]
