"""Rules of a `poll_url`; whether its address may be spoken to is asked at run time.

The address rules live in core, above us, and are asked again at connect, because a name may resolve
to anything. Here: syntax, scheme, and the closed list of expansions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic_core import Url, ValidationError

from yaffle.policy.faults import listed, near_miss, shown, shown_text

EXPANSIONS: Final = {
    "nodename": "node",
    "node_id": "id",
    "physical_id": "id",
    "node_ip": "192.0.2.1",
    "port": "8080",
    "cluster_name": "cluster",
}
"""Name to a stand-in that makes the URL parse. Senlin knows {nodename} only."""
URL_MAX: Final = 2048
_EXPANSION: Final = re.compile(r"\{([^{}]*)\}")
_AUTHORITY: Final = re.compile(r"(?i)https?://[^/?#\\]+")
_HOST_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", re.ASCII)


def poll_url_faults(url: str) -> Iterator[str]:
    """Yield what is wrong with a `poll_url`."""
    names = _EXPANSION.findall(url)
    unknown = sorted({name for name in names if name not in EXPANSIONS})
    known = listed("{" + name + "}" for name in EXPANSIONS)
    for name in unknown:
        hint = near_miss(name, EXPANSIONS)
        yield f"unknown expansion {{{shown_text(name)}}}{hint}; known: {known}"
    expanded = _EXPANSION.sub(lambda match: EXPANSIONS.get(match.group(1), "x"), url)
    if "{" in expanded or "}" in expanded:
        yield f"a brace without its partner; expansions are {known}"
    elif not unknown:
        yield from url_faults(expanded)


def url_faults(url: str) -> Iterator[str]:
    """Yield what is wrong with a URL without expansions."""
    if len(url) > URL_MAX:
        yield f"{len(url)} characters long; at most {URL_MAX}"
        return
    # The URL standard drops tabs and line ends silently; what a person wrote is then not what is asked.
    if any(char.isspace() or not char.isprintable() for char in url):
        yield "a URL has no blanks and no control characters; write %20 for a blank"
        return
    if not _AUTHORITY.match(url):
        yield f"{shown(url)} is not http://host/path or https://host/path"
        return
    try:
        parsed = Url(url)
    except ValidationError as error:
        yield f"{shown(url)} is not a URL: {_reason(error)}"
        return
    if parsed.username or parsed.password:
        # The prober would not send them, and a 401 would count as a failed node.
        yield "user name and password in a URL are not supported; give the check a path without them"
    if parsed.port == 0:
        yield "port 0 cannot be asked"


def reference_faults(target: str) -> Iterator[str]:
    """Yield what is wrong with a reference target: `host:port`, or an http(s) URL."""
    if "://" in target:
        yield from url_faults(target)
        return
    match = _HOST_PORT.fullmatch(target)
    if match is None or len(target) > 260 or not 1 <= int(match.group(1)) <= 65535:
        yield f"{shown(target)} is neither host:port nor an http:// or https:// URL"


def _reason(error: ValidationError) -> str:
    details = error.errors(include_url=False)[0]
    return shown_text(str(details.get("ctx", {}).get("error", details["msg"])))
