"""Reads a Senlin: a live one page by page through its API, or a dump of it from a JSON file."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from yaffle.cli.client.native import Refused, Row
from yaffle.core.imports.dump import shaped
from yaffle.errors import ConfigError, DependencyError, InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

    Lists = dict[str, list[Row]]

PAGE: Final = 200
PAGES_MAX: Final = 10_000
TIMEOUT_S: Final = 60.0
"""Senlin counts the members of every cluster it lists, one statement each."""
FILE_MAX: Final = 1 << 30
PAGED: Final = ("profiles", "policies", "clusters", "nodes", "receivers")
VERSION: Final = "clustering 1.14"


def is_url(source: str) -> bool:
    """Whether `--from` names a server rather than a file."""
    return source.startswith(("http://", "https://"))


def from_file(path: Path) -> Lists:
    """Return the lists in a dump; raise ConfigError or InvalidSpec for a file that is none."""
    try:
        size = path.stat().st_size
        if size > FILE_MAX:
            raise InvalidSpec(f"{path}: {size} bytes; at most {FILE_MAX} are read")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"--from {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"{path}: it is no JSON: {error}") from None
    try:
        return shaped(found)
    except InvalidSpec as error:
        raise InvalidSpec([f"{path}: {problem}" for problem in error.problems]) from None


def from_server(
    url: str,
    *,
    headers: Mapping[str, str],
    all_projects: bool,
    tell: Callable[[str], None],
) -> Lists:
    """Return the lists of a live Senlin; `tell` hears of the progress."""
    import httpx

    local = urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}
    with httpx.Client(
        headers={**headers, "OpenStack-API-Version": VERSION, "User-Agent": "yaffle"},
        timeout=TIMEOUT_S,
        trust_env=not local,
    ) as client:
        reader = _Reader(client, _base(url), all_projects=all_projects)
        found: Lists = {}
        for name in PAGED:
            found[name] = list(reader.pages(name))
            tell(f"read {len(found[name])} {name}")
        bound = [row for c in found["clusters"] for row in reader.bindings(str(c.get("id")))]
        tell(f"read {len(bound)} cluster_policies")
        return {**found, "cluster_policies": bound}


def headers_of(token: str | None, user: str | None, password: str | None) -> dict[str, str]:
    """Return how to sign in; raise ConfigError for half of it, or for both ways at once."""
    if (user is None) != (password is None):
        raise ConfigError("--user and --password belong together")
    if token and user is not None:
        raise ConfigError("give either --token or --user and --password")
    if token:
        return {"X-Auth-Token": token}
    if user is not None:
        both = b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {both}"}
    return {}


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1") + "/v1"


class _Reader:
    """Asks one Senlin."""

    def __init__(self, client: httpx.Client, base: str, *, all_projects: bool) -> None:
        self._client = client
        self._base = base
        self._all = {"global_project": "true"} if all_projects else {}

    def pages(self, name: str) -> Iterator[Row]:
        """Yield every object of a list, until a page is empty."""
        marker: dict[str, str] = {}
        seen: set[str] = set()
        for _ in range(PAGES_MAX):
            page = self._list(f"/{name}", name, {"limit": str(PAGE), **self._all, **marker})
            new = [row for row in page if str(row.get("id")) not in seen]
            if not new:
                return
            yield from new
            seen.update(str(row.get("id")) for row in new)
            marker = {"marker": str(page[-1].get("id"))}
        raise DependencyError(f"{self._base}/{name}: no end after {PAGES_MAX} pages")

    def bindings(self, cluster_id: str) -> list[Row]:
        """Return the policies of a cluster; they come without pages."""
        path = f"/clusters/{quote(cluster_id, safe='')}/policies"
        return self._list(path, "cluster_policies", {})

    def _list(self, path: str, key: str, query: dict[str, str]) -> list[Row]:
        import httpx

        url = self._base + path
        try:
            answer = self._client.get(url, params=query)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise DependencyError(f"--from {url}: {reason}") from None
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not answer.is_success:
            raise Refused(answer.status_code, f"--from {url}: {_said(found, answer)}")
        rows = found.get(key) if isinstance(found, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise DependencyError(f"--from {url}: no list {key!r} in the answer: is it a Senlin?")
        return rows


def _said(found: object, answer: httpx.Response) -> str:
    fault = found.get("error") if isinstance(found, dict) else None
    message = fault.get("message") if isinstance(fault, dict) else None
    hint = "; give --token, or --user and --password" if answer.status_code == 401 else ""
    return f"HTTP {answer.status_code} {message or ''}".rstrip() + hint
