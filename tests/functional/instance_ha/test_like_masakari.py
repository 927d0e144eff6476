"""Ours answers as a real Masakari does: the same requests, one after the other, and the same answers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from tests.functional.api.live import running
from tests.functional.instance_ha.exchanges import ALL, Exchange, wrong
from tests.servers.masakari import TOKEN, masakari

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
STAMPED = re.compile(r'("(?:created|updated)_at": )"[-0-9T:.]+"')
SERIAL = re.compile(r'("id": )\d+')
WRONG = 300
KEPT = ("uuid", "notification_uuid")


class Asked:
    """One server, with the names of the ids that it has given."""

    def __init__(self, root: str, headers: Mapping[str, str], ids: Mapping[str, str]) -> None:
        self.root, self.ids = root, dict(ids)
        self.client = httpx.Client(headers=headers, timeout=60)
        self._names: dict[str, str] = {ident: name for name, ident in ids.items()}

    def answer(self, exchange: Exchange) -> tuple[int, str, str, Any]:
        """Return status, media type, version that answered, and the body with names instead of ids."""
        path = exchange.path
        for name, ident in self.ids.items():
            path = path.replace(f"{{{name}}}", ident)
        headers = {"Content-Type": "application/json"}
        if exchange.version:
            headers["OpenStack-API-Version"] = exchange.version
        content = exchange.raw
        if exchange.body is not None:
            content = json.dumps(exchange.body).encode()
        done = self.client.request(
            exchange.method, self.root + path, headers=headers, content=content
        )
        # Masakari gives an empty body a type, too.
        media = done.headers.get("content-type", "").partition(";")[0] if done.content else ""
        if exchange.keep:
            (found,) = done.json().values()
            ident = next(found[key] for key in KEPT if key in found)
            self.ids[exchange.keep], self._names[ident] = ident, exchange.keep
        version = done.headers.get("openstack-api-version", "")
        plain = self._plain(done.text, media)
        if "/notifications" in path and media == "application/json":
            # Ours counts the refused ones, too: they are heard.
            plain = json.loads(SERIAL.sub(r'\1"COUNT"', json.dumps(plain)))
        return done.status_code, media, version, plain

    def _plain(self, text: str, media: str) -> Any:
        if media != "application/json":
            return ""
        text = json.dumps(json.loads(text), sort_keys=True).replace(self.root, "ROOT")
        text = STAMPED.sub(r'\1"WHEN"', text)
        return json.loads(UUID.sub(lambda m: self._names.setdefault(m[0], self._next(m)), text))

    def _next(self, match: re.Match[str]) -> str:
        known = match[0].startswith("00000000")
        return match[0] if known else f"id {len(self._names)}"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asked, Asked]]:
    """A real one and ours, with the same segment of three hosts."""
    with masakari() as real, running(tmp_path_factory.mktemp("state") / "yaffle") as live:
        for name in ("cmp1", "cmp2", "cmpm"):
            real.register(name, on_maintenance=name == "cmpm")
        root = f"http://{live.address}/instance-ha"
        with live.client() as client:

            def made(path: str, body: Any) -> Any:
                return client.post(f"/instance-ha/v1{path}", json=body).raise_for_status().json()

            values = {"name": "all", "recovery_method": "auto", "service_type": "COMPUTE"}
            segment = made("/segments", {"segment": values})["segment"]["uuid"]
            for name in ("cmp1", "cmp2", "cmpm"):
                host = {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}
                host["on_maintenance"] = name == "cmpm"
                made(f"/segments/{segment}/hosts", {"host": host})
            theirs = _known(real.url, real.segment, {"X-Auth-Token": TOKEN})
            ours = _known(f"{root}/v1", segment, live.headers)
        asked = (
            Asked(real.url.removesuffix("/v1"), {"X-Auth-Token": TOKEN}, theirs),
            Asked(root, live.headers, ours),
        )
        yield asked
        for one in asked:
            one.client.close()


def _known(url: str, segment: str, headers: Mapping[str, str]) -> dict[str, str]:
    answer = httpx.get(f"{url}/segments/{segment}/hosts", headers=headers).raise_for_status()
    hosts = {one["name"]: one["uuid"] for one in answer.json()["hosts"]}
    return {"all": segment, **hosts}


def test_the_same_is_answered(both):
    real, ours = both
    differ = []
    for exchange in ALL:
        theirs, mine = real.answer(exchange), ours.answer(exchange)
        if not exchange.words:
            theirs, mine = _wordless(theirs), _wordless(mine)
        if (theirs != mine) is not bool(exchange.other):
            differ.append((exchange, theirs, mine))
    said = "\n\n".join(f"{e}\n  Masakari: {t}\n  ours:     {m}" for e, t, m in differ)
    assert not differ, f"{len(differ)} of {len(ALL)} differ:\n{said}"


def test_whatever_is_wrong_with_a_request_the_same_is_said_of_it(both):
    """Random requests that would be fine but for what was changed in them."""
    real, ours = both
    chance = random.Random(7)
    differ = []
    for number in range(WRONG):
        exchange = wrong(chance, number)
        theirs, mine = real.answer(exchange), ours.answer(exchange)
        # Where Masakari breaks down, there is nothing to be like.
        if theirs[0] < 500 and theirs[0] // 100 == mine[0] // 100 == 2:
            theirs, mine = _wordless(theirs), _wordless(mine)
        if theirs[0] < 500 and theirs != mine:
            differ.append((exchange, theirs, mine))
    said = "\n\n".join(f"{e}\n  Masakari: {t}\n  ours:     {m}" for e, t, m in differ)
    assert not differ, f"{len(differ)} of {WRONG} differ:\n{said}"


def _wordless(answer: tuple[int, str, str, Any]) -> tuple[Any, ...]:
    status, media, _, body = answer
    return status, media, list(body)
