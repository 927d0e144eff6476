"""JSON that can always be written, whatever text somebody has stored."""

from __future__ import annotations

import json

from starlette.responses import JSONResponse


class Reply(JSONResponse):
    """Plain JSON in ASCII: lone surrogates stay escaped instead of failing at the very end."""

    def render(self, content: object) -> bytes:
        """Return the bytes of `content`."""
        return json.dumps(content, separators=(",", ":"), default=str).encode("ascii")


class HealthReply(Reply):
    """The same under the media type of health documents."""

    media_type = "application/health+json"
