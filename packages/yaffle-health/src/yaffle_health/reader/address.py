"""What people write for "that process over there": four spellings, one `Target`.

tcp://host:port and unix:///path are what the option `uri` takes, so what serves can be pasted here.
A bare path and http://host:port/path are what people type, and what other endpoints are known by.
"""

from __future__ import annotations

import urllib.parse
from typing import Final

from yaffle_health.errors import BadUri
from yaffle_health.reader.ask import Target
from yaffle_health.uris import OPTION, Unix, parse

REQUEST: Final = "/health"
# What a request line may hold as it is; everything else goes as %XX.
_SAFE: Final = "/:@!$&'()*+,;=-._~%"


def target(text: str, *, request: str = REQUEST, group: str | None = None) -> Target:
    """Read an address; BadUri says what is wrong with it.

    `request` is the path to ask for, unless an http:// address has one of its own; `group` one
    group of checks.
    """
    text = text.strip()
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme == "http":
        return _http(text, request, group)
    if scheme == "https":
        raise BadUri(OPTION, text, "the endpoint speaks no TLS: write http://, tcp:// or unix://")
    if text.startswith("/"):
        text = f"unix://{urllib.parse.quote(text, safe='/%')}"
    elif not scheme:
        text = f"tcp://{text}"
    addresses = parse(text)
    if len(addresses) != 1:
        raise BadUri(OPTION, text, "one address, please" if addresses else "the address is empty")
    asked = _asked(request, "", group)
    if isinstance(addresses[0], Unix):
        return Target(path=addresses[0].path, request=asked)
    return Target(host=addresses[0].host, port=addresses[0].port, request=asked)


def _http(text: str, request: str, group: str | None) -> Target:
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadUri(OPTION, text, str(error)) from None
    if parts.username is not None:
        raise BadUri(OPTION, text, "it may not have a userinfo")
    host = urllib.parse.unquote(parts.hostname or "")
    if not host:
        raise BadUri(OPTION, text, "the host is missing")
    path = parts.path if parts.path not in {"", "/"} else request
    return Target(host=host, port=port or 80, request=_asked(path, parts.query, group))


def _asked(path: str, query: str, group: str | None) -> str:
    if not path.startswith("/"):
        raise BadUri(OPTION, path, "the path to ask for begins with /")
    queries = [urllib.parse.quote(query, safe=_SAFE + "?")] if query else []
    if group is not None:
        queries.append("group=" + urllib.parse.quote(group, safe=""))
    return urllib.parse.quote(path, safe=_SAFE) + ("?" + "&".join(queries) if queries else "")
