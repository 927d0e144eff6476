"""What a service's answers mean, as two pure functions: to the POST, and to the question after it.

To the POST: 200, 201, 204 done (unless the body's `status` says running or failed); 202 at work;
408, 425, 429 later, nothing has begun; 409 to a repeat "still at work"; 5xx and silence unknown;
3xx and other 4xx refused, nothing has begun. To the question: `{"status": running | done | failed,
"detail": "…"}`; 404 and 410 mean that the service does not know the operation; anything else says
nothing about the workflow, and only the workflow's own deadline ends the waiting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import httpx

from yaffle.clouds.http import Answer, NoAnswer, one_line, same_origin
from yaffle.drivers.workflows.http.records import Stage

_LATER: Final = frozenset({408, 425, 429})
_GONE: Final = frozenset({404, 410})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one answer says; `stage` None: the service does not know the operation."""

    stage: Stage | None
    detail: str
    location: str = ""


def after_post(answer: Answer | NoAnswer, url: str, *, repeat: bool) -> Reply:
    """Say what an answer to the POST means; `repeat`: an earlier POST may have arrived."""
    if isinstance(answer, NoAnswer):
        stage = Stage.SENDING if answer.sent or repeat else Stage.UNSENT
        return Reply(stage=stage, detail=answer.detail)
    status, detail = answer.status, _detail(answer)
    if 200 <= status < 300:
        word = Stage.ACCEPTED if status == 202 else _stage(answer) or Stage.DONE
        return Reply(stage=word, detail=detail, location=_location(answer, url))
    if status in _LATER:
        return Reply(stage=Stage.SENDING if repeat else Stage.UNSENT, detail=detail)
    if status == 409 and repeat:
        return Reply(stage=Stage.SENDING, detail=detail)
    if status >= 500:
        return Reply(stage=Stage.SENDING, detail=detail)
    if 300 <= status < 400:
        detail = f"{detail}: redirects are not followed"
    return Reply(stage=Stage.FAILED, detail=detail)


def after_question(answer: Answer | NoAnswer, before: Stage) -> Reply:
    """Say what an answer to "how far is it?" means; `before` stands where it means nothing."""
    if isinstance(answer, NoAnswer):
        return Reply(stage=before, detail=answer.detail)
    if answer.status in _GONE:
        return Reply(stage=None, detail=_detail(answer))
    if 200 <= answer.status < 300:
        return Reply(stage=_stage(answer) or before, detail=_detail(answer))
    return Reply(stage=before, detail=_detail(answer))


def _stage(answer: Answer) -> Stage | None:
    words = {"running": Stage.ACCEPTED, "done": Stage.DONE, "failed": Stage.FAILED}
    return words.get(str(_document(answer).get("status", "")))


def _detail(answer: Answer) -> str:
    said = _document(answer).get("detail", "")
    return (
        f"{answer.status}: {one_line(said)}"
        if isinstance(said, str) and said
        else str(answer.status)
    )


def _document(answer: Answer) -> dict[str, object]:
    if answer.cut:
        return {}
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _location(answer: Answer, url: str) -> str:
    """Return where to ask; empty for another origin, which must not get our signed questions."""
    given = answer.headers.get("location", "")
    if not given:
        return ""
    try:
        location = str(httpx.URL(url).join(given))
    except httpx.InvalidURL:
        return ""
    return location if same_origin(url, location) else ""
