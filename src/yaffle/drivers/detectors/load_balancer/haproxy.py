"""Asks HAProxy once for all servers of one backend, and reads its CSV without believing half of it.

Over a stats socket the question names the backend, over HTTP the whole page comes and is searched.
What is cut short, too long or not CSV is no answer: a row that lost its end could say anything.
Columns by name (HAProxy's management guide, 9.1): their order grew with the versions.
"""

from __future__ import annotations

import asyncio
import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from yaffle.core.health import lb_member_status
from yaffle.drivers.detectors.load_balancer.pool import Failed, Listed, Member, Pool, Pools
from yaffle.drivers.detectors.load_balancer.settings import Balancer, Page, Socket
from yaffle.integrations.http import Answer, HttpSession, one_line

ANSWER_MAX: Final = 16_777_216
"""Bytes: some 30,000 servers."""
AT_ONCE_MAX: Final = 65_536
"""Characters, some 200 servers: a thread for less takes longer than reading it does."""
_READERS: Final = ThreadPoolExecutor(1, thread_name_prefix="yaffle-haproxy")
"""One for all: several would only take the interpreter from each other. Made when it is first used."""
_SERVER: Final = "2"
"""Column `type`: neither frontend (0) nor backend (1) nor listener (3)."""
_NEEDED: Final = ("pxname", "svname", "status", "type")
_ALL: Final = "-1"
"""Every proxy, for `show stat`."""

Row = dict[str, str]
T = TypeVar("T")


async def ask(
    source: Socket | Page, balancer: Balancer, pool: str, session: HttpSession, *, within_s: float
) -> Pool:
    """Return the servers of `pool`, or why they cannot be told; the caller ends it at `within_s`."""
    text = await _text(source, balancer, pool, session, within_s)
    return text if isinstance(text, Failed) else await _apart(text, partial(read_csv, text, pool))


async def ask_all(
    source: Socket | Page, balancer: Balancer, session: HttpSession, *, within_s: float
) -> Pools:
    """Return every backend with its servers, in one request; as `ask`."""
    text = await _text(source, balancer, _ALL, session, within_s)
    return text if isinstance(text, Failed) else await _apart(text, partial(read_all, text))


async def _apart(text: str, read: Callable[[], T]) -> T:
    """Read an answer; a long one in a thread, where the loop has its turn every few milliseconds.

    Whoever gives up lets go of what has not begun; what has begun is bounded by `ANSWER_MAX`.
    """
    if len(text) <= AT_ONCE_MAX:
        return read()
    return await asyncio.get_running_loop().run_in_executor(_READERS, read)


async def _text(
    source: Socket | Page, balancer: Balancer, proxy: str, session: HttpSession, within_s: float
) -> str | Failed:
    """Return the CSV."""
    try:
        match source:
            case Socket():
                return _of_socket(await _told(source, f"show stat {proxy} 6 -1\n"), proxy)
            case Page():
                answer = await session.request(
                    "GET",
                    source.url,
                    headers=balancer.headers,
                    # The caller is first, so that silence is told alike for every source.
                    deadline_s=within_s * 2,
                    answer_max=ANSWER_MAX,
                )
                return _of_page(answer)
    except OSError as error:
        return Failed(code="LB-ERROR", why=error.strerror or type(error).__name__)


async def _told(source: Socket, command: str) -> bytes:
    """Return everything that the socket says to one command; HAProxy closes after it."""
    if source.path:
        reader, writer = await asyncio.open_unix_connection(source.path)
    else:
        reader, writer = await asyncio.open_connection(source.host, source.port)
    try:
        writer.write(command.encode())
        await writer.drain()
        found = bytearray()
        while chunk := await reader.read(262_144):
            found += chunk
            if len(found) > ANSWER_MAX:
                break
        return bytes(found)
    finally:
        # Dropped, not flushed: whoever does not read must not keep us.
        writer.transport.abort()


def _of_socket(told: bytes, pool: str) -> str | Failed:
    if len(told) > ANSWER_MAX:
        return Failed(code="LB-ERROR", why=f"an answer of more than {ANSWER_MAX} bytes")
    text = told.decode("utf-8", "replace")
    if not text.startswith("# "):
        if "no such proxy" in text.lower():
            return Failed(code="LB-NO-POOL", why=f"it has no backend {pool!r}")
        return Failed(code="LB-ERROR", why=f"it says {one_line(text) or 'nothing'!r}")
    if not text.endswith("\n\n"):
        return Failed(code="LB-ERROR", why="its answer was cut short")
    return text


def _of_page(answer: object) -> str | Failed:
    if not isinstance(answer, Answer):
        return Failed(code="LB-ERROR", why=str(getattr(answer, "detail", "no answer")))
    if answer.cut:
        return Failed(code="LB-ERROR", why=f"an answer of more than {ANSWER_MAX} bytes")
    text = answer.body.decode("utf-8", "replace")
    if answer.status != 200:
        return Failed(code="LB-ERROR", why=f"HTTP {answer.status}")
    if not text.startswith("# "):
        return Failed(code="LB-ERROR", why="no CSV; the URL has to end with ;csv")
    return text


def read_csv(text: str, pool: str) -> Pool:
    """Return the servers of `pool`; pure."""
    found = _rows(text, pool)
    if isinstance(found, Failed):
        return found
    if not found:
        # Not those that there are: they may be other projects'.
        return Failed(code="LB-NO-POOL", why=f"it has no backend {pool!r}")
    return [_member(row) for row in found if row["type"] == _SERVER]


def read_all(text: str) -> Pools:
    """Return every backend that has servers; pure."""
    found = _rows(text)
    if isinstance(found, Failed):
        return found
    by_pool: defaultdict[str, list[Member]] = defaultdict(list)
    for row in found:
        if row["type"] == _SERVER:
            by_pool[row["pxname"]].append(_member(row))
    return [Listed(pool=one, name=one, members=by_pool[one]) for one in sorted(by_pool)]


def _rows(text: str, pool: str | None = None) -> Sequence[Row] | Failed:
    """Return all rows, or those of one backend; all of them have to be whole."""
    # Not `splitlines`: it ends a line at characters that a node may have put into its answer's reason.
    rows = csv.reader(text.removeprefix("# ").replace("\r\n", "\n").split("\n"), strict=True)
    try:
        head = next(rows)
        lines = [row for row in rows if row]
    except (csv.Error, StopIteration):
        return Failed(code="LB-ERROR", why="its answer is not CSV")
    if any(name not in head for name in _NEEDED):
        return Failed(code="LB-ERROR", why=f"its answer lacks one of {', '.join(_NEEDED)}")
    if len({name for name in head if name}) != sum(map(bool, head)):
        return Failed(code="LB-ERROR", why="its answer has a column twice")
    if any(len(row) != len(head) for row in lines):
        return Failed(code="LB-ERROR", why="its answer was cut short")
    place = head.index("pxname")
    mine = lines if pool is None else [row for row in lines if row[place] == pool]
    return [dict(zip(head, row, strict=True)) for row in mine]


def _member(row: Row) -> Member:
    # A server that is watched by its agent alone has nothing in the columns of the check.
    check = row.get("check_status", "") or row.get("agent_status", "")
    detail = row.get("last_chk", "") or row.get("last_agt", "")
    code = row.get("check_code", "") or row.get("agent_code", "")
    # A star marks a check that is under way; the code is 0 until it has ended.
    last = check.removeprefix("* ") + (f" {code}" if code not in {"", "0"} else "")
    said = (row["status"], last, detail)
    return Member(
        name=row["svname"],
        address=row.get("addr", ""),
        code=lb_member_status.haproxy(row["status"], check, detail),
        words=one_line(", ".join(part for part in said if part)),
    )
