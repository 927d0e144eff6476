"""Meaning of a service's answers, as two pure functions: to the POST, and to the question after it.

To the POST: 200, 201, 204 done, unless the body is JSON that says otherwise: a `status` of running or
failed, or one that we do not know, or a document that cannot be read, of which the question is asked;
202 at work;
408, 425, 429 later, nothing has begun; 409 to a repeat "still at work"; 502, 503, 504 (a gateway's,
who does not know) and silence unknown; 3xx, other 4xx, other 5xx and a refused connection end it. To
a *repeat* neither a 5xx nor a refused connection is an end: what came before may be at work. To the
question: `{"status": running | done | failed, "detail": "…"}` (or `reason`); 404 and 410 mean that
the service does not know the operation; anything else says nothing about the workflow, and only the
workflow's own deadline ends the waiting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import httpx

from yaffle.drivers.workflows.http.records import Stage
from yaffle.integrations.http import Answer, NoAnswer, one_line, same_origin
from yaffle.integrations.masking import masked

_LATER: Final = frozenset({408, 425, 429})
_GONE: Final = frozenset({404, 410})
_WORDS: Final = ("detail", "reason")
"""Where a document says why, the first that does."""
_GATEWAY: Final = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The content of one answer; `stage` None: the service does not know the operation."""

    stage: Stage | None
    detail: str
    location: str = ""


def after_post(
    answer: Answer | NoAnswer, url: str, *, repeat: bool, hidden: Iterable[str] = ()
) -> Reply:
    """Say what an answer to the POST means; `repeat`: an earlier POST may have arrived.

    `hidden`: what the service was given as a secret, and may say again.
    """
    if isinstance(answer, NoAnswer):
        return _unanswered(answer, repeat=repeat)
    status, detail = answer.status, _detail(answer, hidden)
    if 200 <= status < 300:
        word = Stage.ACCEPTED if status == 202 or _is_odd(answer) else _stage(answer) or Stage.DONE
        return Reply(stage=word, detail=detail, location=_location(answer, url))
    if status in _LATER:
        return Reply(stage=Stage.SENDING if repeat else Stage.UNSENT, detail=detail)
    if status == 409 and repeat:
        return Reply(stage=Stage.SENDING, detail=detail)
    if status >= 500 and (repeat or status in _GATEWAY) and _stage(answer) is not Stage.FAILED:
        return Reply(stage=Stage.SENDING, detail=detail)
    if 300 <= status < 400:
        detail = f"{detail}: redirects are not followed"
    return Reply(stage=Stage.FAILED, detail=detail)


def _unanswered(answer: NoAnswer, *, repeat: bool) -> Reply:
    """Only a refused connection is proof, and only where nothing was sent before."""
    if answer.sent or repeat:
        return Reply(stage=Stage.SENDING, detail=answer.detail)
    if answer.refused:
        return Reply(stage=Stage.NOT_BEGUN, detail=f"nothing was begun: {answer.detail}")
    return Reply(stage=Stage.UNSENT, detail=f"not sent yet: {answer.detail}")


def after_question(
    answer: Answer | NoAnswer, before: Stage, *, hidden: Iterable[str] = ()
) -> Reply:
    """Say what an answer to "how far is it?" means; `before` stands where it means nothing."""
    if isinstance(answer, NoAnswer):
        return Reply(stage=before, detail=answer.detail)
    detail = _detail(answer, hidden)
    if answer.status in _GONE:
        return Reply(stage=None, detail=detail)
    if 200 <= answer.status < 300:
        return Reply(stage=_stage(answer) or before, detail=detail)
    return Reply(stage=before, detail=detail)


def _stage(answer: Answer) -> Stage | None:
    words = {"running": Stage.ACCEPTED, "done": Stage.DONE, "failed": Stage.FAILED}
    return words.get(str(_document(answer).get("status", "")))


def _is_odd(answer: Answer) -> bool:
    """Whether a document says something of the workflow that we do not understand, or is no whole one."""
    document = _document(answer)
    if not document:
        return "json" in answer.headers.get("content-type", "") and bool(answer.body.strip())
    return document.get("status") not in (None, "") and _stage(answer) is None


def _detail(answer: Answer, hidden: Iterable[str]) -> str:
    """Return the status and what the service said of it: a document's words, or its plain text."""
    document = _document(answer)
    said = next((w for w in map(document.get, _WORDS) if isinstance(w, str) and w.strip()), "")
    if not said and answer.headers.get("content-type", "").startswith("text/plain"):
        said = answer.body.decode("utf-8", "replace")
    told = one_line(masked(said, hidden))
    return f"{answer.status}: {told}" if told else str(answer.status)


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
