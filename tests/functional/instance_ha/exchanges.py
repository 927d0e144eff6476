"""What is asked of a real Masakari and of ours in the same words, one after the other.

`{name}` in a path stands for the id of an object that an earlier answer has shown, by its name.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

NOBODY = str(uuid.UUID(int=7))
HIGH = "instance-ha 1.3"
S, N = "/v1/segments", "/v1/notifications"
HOSTS = f"{S}/{{all}}/hosts"
STOPPED = {"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}
GUEST = {
    "event": "LIFECYCLE",
    "instance_uuid": NOBODY,
    "vir_domain_event": "STOPPED_FAILED",
}


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request. `other`: why ours does not answer as Masakari does, where it does not."""

    method: str
    path: str
    body: Any = None
    raw: bytes | None = None
    version: str = ""
    keep: str = ""
    """Under this name the id of what is answered is known from now on."""
    other: str = ""
    words: bool = True
    """Whether the words of a refusal are compared, too."""


def get(path: str, version: str = "", **more: Any) -> Exchange:
    return Exchange(method="GET", path=path, version=version, **more)


def post(path: str, body: Any, version: str = "", **more: Any) -> Exchange:
    return Exchange(method="POST", path=path, body=body, version=version, **more)


def put(path: str, body: Any, version: str = "", **more: Any) -> Exchange:
    return Exchange(method="PUT", path=path, body=body, version=version, **more)


def delete(path: str, **more: Any) -> Exchange:
    return Exchange(method="DELETE", path=path, **more)


def segment(**values: Any) -> Mapping[str, Any]:
    given = {"name": "s1", "recovery_method": "auto", "service_type": "COMPUTE", **values}
    return {"segment": {key: value for key, value in given.items() if value is not ...}}


def host(**values: Any) -> Mapping[str, Any]:
    given = {"name": "g", "type": "COMPUTE", "control_attributes": "SSH", **values}
    return {"host": {key: value for key, value in given.items() if value is not ...}}


def told(**values: Any) -> Mapping[str, Any]:
    given = {
        "type": "COMPUTE_HOST",
        "hostname": "cmp1",
        "generated_time": "2026-11-29T10:00:00",
        "payload": STOPPED,
        **values,
    }
    return {"notification": {key: value for key, value in given.items() if value is not ...}}


def discovery() -> Iterator[Exchange]:
    yield get("/")
    yield get("/v1")
    yield get("/v1/", HIGH)
    yield get("/v1/admin/segments")
    yield get("/v1/nowhere")
    yield get("/v1/segments/")
    yield get("/v2", words=False)
    yield get("/segments", words=False)
    for version in ("1.3", "1.4", "x", "latest", "0.9", "2.0", "1.0"):
        yield get("/v1/segments", f"instance-ha {version}")
    yield get("/v1/segments", "clustering 1.14")
    yield get("/v1/segments", "ha 1.3")


def segments() -> Iterator[Exchange]:
    yield post(S, segment(), keep="s1")
    yield post(S, segment())
    yield post(S, segment(name="s2", enabled=False))
    yield post(S, segment(name="s2", enabled=False), "instance-ha 1.1")
    yield post(S, segment(name="s2", enabled="no", description="d"), "instance-ha 1.2", keep="s2")
    yield post(S, segment(name="s3", enabled=True), HIGH, keep="s3")
    yield post(S, segment(name="s4", enabled="maybe"), HIGH)
    for name in (" s4", "s4 ", "", 3, None, "x" * 256, "a\tb", "a b", ...):
        yield post(S, segment(name=name))
    yield post(S, segment(name="s5", recovery_method="other"))
    yield post(S, segment(name="s5", recovery_method=...))
    yield post(S, segment(name="s5", service_type=...))
    yield post(S, segment(name="s5", description="a\nb"), keep="s5")
    yield post(S, segment(name="s6", description=5))
    yield post(S, segment(name="s6", x=1))
    for method in ("reserved_host", "auto_priority", "rh_priority"):
        yield post(S, segment(name=method, recovery_method=method))
    for body in ({"segments": {}}, {}, [], "x", {"segment": []}, {**segment(), "x": 1}):
        yield post(S, body)
    yield Exchange(method="POST", path=S, raw=b"{bad")
    yield Exchange(method="POST", path=S, raw=b"")
    for ident in ("{s1}", "nope", NOBODY, "1"):
        yield get(f"{S}/{ident}")
        yield put(f"{S}/{ident}", {"segment": {"description": "rack 7"}})
    yield get(f"{S}/{{s2}}", HIGH)
    one = f"{S}/{{s1}}"
    yield put(one, {"segment": {}})
    yield put(one, {"segment": {"enabled": False}})
    yield put(one, {"segment": {"enabled": False}}, "instance-ha 1.2")
    yield put(one, {"segment": {"enabled": "yes"}}, HIGH)
    yield put(one, {"segment": {"name": "s2"}})
    yield put(one, {"segment": {"name": "s1"}})
    yield put(one, {"segment": {"name": "q", "x": 1}})
    yield put(one, {"segment": {"recovery_method": "rh_priority", "service_type": "C"}})
    yield Exchange(method="PATCH", path=one, body={"segment": {"name": "q"}})
    yield post(one, segment())
    for query in (
        "recovery_method=auto",
        "recovery_method=bad",
        "service_type=COMPUTE",
        "limit=1",
        "limit=-1",
        "limit=x",
        "limit=0",
        "marker=nope",
        "sort_key=name&sort_dir=asc",
        "sort_key=name",
        "sort_key=recovery_method&sort_key=name&sort_dir=asc&sort_dir=desc",
        "sort_key=id&sort_dir=asc&limit=2",
        "sort_dir=bad",
        "other=1",
    ):
        yield get(f"{S}?{query}")
    yield get(f"{S}?sort_key=bad", words=False)
    broken = "Masakari compares a word with a number and finds nothing"
    yield get(f"{S}?enabled=true", other=broken)
    lost = "Masakari takes no marker for any"
    yield get(f"{S}?marker={{s2}}&sort_key=name&sort_dir=asc", other=lost)


def hosts() -> Iterator[Exchange]:
    yield get(HOSTS)
    for ident in ("{cmp1}", NOBODY):
        yield get(f"{HOSTS}/{ident}")
        yield get(f"{HOSTS}/{ident}", HIGH)
    yield get(f"{HOSTS}/nope", words=False)
    yield get(f"{S}/{{s1}}/hosts/{{cmp1}}")
    yield get(f"{S}/nope/hosts")
    yield get(f"{S}/{{s1}}/hosts")
    yield post(HOSTS, host(type="COMPUTE_X"))
    yield post(HOSTS, host(type=...))
    yield post(HOSTS, host(control_attributes=...))
    yield post(HOSTS, host(reserved="maybe"))
    yield post(HOSTS, host(on_maintenance=3))
    yield post(HOSTS, host(name=""))
    yield post(HOSTS, host(x="y"))
    yield post(f"{S}/nope/hosts", host())
    for query in (
        "on_maintenance=true",
        "on_maintenance=x",
        "reserved=no",
        "reserved=?",
        "type=COMPUTE",
        "type=OTHER",
        "control_attributes=SSH",
        "limit=1",
        "limit=q",
        "marker=nope",
        "sort_key=name&sort_dir=asc",
    ):
        yield get(f"{HOSTS}?{query}")
    yield get(f"{HOSTS}?sort_key=zz", words=False)
    yield get(f"{HOSTS}?name=cmp1", other="Masakari reads the name and does not choose by it")
    one = f"{HOSTS}/{{cmp2}}"
    yield put(one, {"host": {"reserved": "yes"}})
    yield put(one, {"host": {"reserved": False, "on_maintenance": "off"}})
    yield put(one, {"host": {"control_attributes": "IPMI", "type": "OTHER"}})
    yield put(one, {"host": {}})
    yield put(one, {"host": {"x": 1, "reserved": True}})
    yield put(one, {"host": {"reserved": "perhaps"}})
    yield put(f"{HOSTS}/nope", {"host": {"reserved": True}})
    yield put(f"{S}/{{s1}}/hosts/{{cmp2}}", {"host": {"reserved": True}})
    yield delete(f"{HOSTS}/{NOBODY}")


def notifications() -> Iterator[Exchange]:
    yield post(N, told(), keep="first")
    yield post(N, told())
    for at in (
        "2026-11-29T10:02:59Z",
        "2026-11-29 12:03:01+02:00",
        "2026-11-29 10:00:00.123",
        "2026-11-29 10:10:00.123",
        "2026-11-29 09:00:00.123",
        "2026-11-29T10:20:00.123456+00:00",
        "20261129T102500Z",
        "yesterday",
        "",
        5,
        None,
    ):
        yield post(N, told(generated_time=at))
    for name in ("ghost", "cmpm", "a b", "", "x" * 256, 5, "Cmp1"):
        yield post(N, told(hostname=name, generated_time="2026-11-29T12:00:00"))
    for key in ("type", "hostname", "generated_time", "payload"):
        yield post(N, told(**{key: ...}))
    yield post(N, told(type="X"))
    yield post(N, told(type="compute_host"))
    yield post(N, told(extra=1))
    yield post(N, {"notifications": {}})
    for payload in (
        {},
        "x",
        [],
        {"event": "stopped"},
        {**STOPPED, "host_status": "GOOD"},
        {**STOPPED, "cluster_status": "online"},
        {**STOPPED, "q": "1"},
        {**STOPPED, "q": 1},
        {**STOPPED, "q ü": "1"},
        {"event": "STOPPED"},
        {"event": "STARTED", "host_status": "NORMAL", "cluster_status": "ONLINE"},
        {"event": "STOPPED", "host_status": "UNKNOWN"},
    ):
        yield post(N, told(payload=payload))
    for guest in (
        {**GUEST, "instance_uuid": "x"},
        {**GUEST, "event": ""},
        {**GUEST, "vir_domain_event": "x" * 256},
        {"event": "LIFECYCLE"},
    ):
        yield post(N, told(type="VM", payload=guest))
    yield post(N, told(type="VM", payload=GUEST), keep="guest")
    for process in (
        {"event": "STOPPED"},
        {"event": "STOPPED", "process_name": ""},
        {"event": "STOPPED", "process_name": "x" * 256},
        {"event": "STOPPED", "process_name": "nova-compute"},
        {"event": "STARTED", "process_name": "nova-compute"},
    ):
        yield post(N, told(type="PROCESS", payload=process))
    for ident in ("{first}", "1", NOBODY):
        yield get(f"{N}/{ident}")
    yield put(f"{N}/{{first}}", {}, words=False)
    yield delete(f"{N}/{{first}}", words=False)
    yield Exchange(method="PATCH", path=N, body={})
    for query in (
        "status=new",
        "status=bad",
        "type=VM",
        "type=bad",
        "source_host_uuid={cmp1}",
        "source_host_uuid=nope",
        "generated-since=2026-11-29T10:05:00",
        "generated-since=2026-11-29T10:00:00Z",
        "generated-since=bad",
        "limit=1",
        "marker=nope",
        "sort_key=id&sort_dir=asc&limit=3",
        "sort_key=generated_time&sort_dir=asc",
        "type=COMPUTE_HOST&status=new&limit=2",
    ):
        yield get(f"{N}?{query}")
    yield get(f"{N}?sort_key=bad", words=False)


def moves() -> Iterator[Exchange]:
    one = f"{N}/{{first}}/vmoves"
    yield get(one)
    yield get(one, HIGH)
    yield get(f"{N}/nope/vmoves", HIGH)
    yield get(f"{one}/nope", HIGH)
    yield get(f"{one}/{NOBODY}", HIGH)
    yield get(f"{N}/{{guest}}/vmoves", HIGH)
    yield get(f"{N}/{{guest}}/vmoves/{NOBODY}", HIGH)
    yield get(f"{one}?status=bad", HIGH)
    yield get(f"{one}?limit=x", HIGH)


def in_use() -> Iterator[Exchange]:
    """Refusals while notifications are under way; then what is not used is deleted."""
    yield put(f"{HOSTS}/{{cmp2}}", {"host": {"reserved": "no"}})
    yield delete(f"{HOSTS}/{{cmp2}}")
    yield delete(f"{S}/{{all}}")
    yield put(f"{S}/{{all}}", {"segment": {"name": "zz"}})
    for ident in ("{s5}", "{s5}", "nope"):
        yield delete(f"{S}/{ident}")
    yield get(f"{S}/{{s5}}")
    yield get(f"{S}?sort_key=name&sort_dir=asc")


ALL = [*discovery(), *segments(), *hosts(), *notifications(), *moves(), *in_use()]


# --- requests with something wrong in them ------------------------------------------------------

JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, [], {}, ["a"], {"a": 1}),
    *("", "a", " a", "a ", "a\nb", "ä", "x" * 255, "x" * 256, "True", "no", "1"),
    *("STOPPED", "NORMAL", "auto"),
    *("2026", "2026-11", "20261129", "2026-W48-7", "2026-11-29T10:00", "2026-11-29T25:00:00"),
    *("2026-11-29T10:00:00.1234567", "2026-11-29T10:00:00,5", "2026-11-29T10Z", "10:00:00"),
    *(NOBODY, NOBODY.upper(), uuid.UUID(NOBODY).hex, f"{{{NOBODY}}}", f"urn:uuid:{NOBODY}"),
)
"""What stands in the place of something else."""
STRANGE = ("x", "name ", "enabled", "Event", "id")
"""Names of what is added."""


def wrong(chance: random.Random, number: int) -> Exchange:
    """Return a request that would be fine but for a change or two."""
    version = f"instance-ha {chance.choice(('1.0', '1.1', '1.2', '1.3'))}"
    minute = f"2026-11-29T{chance.randrange(24):02}:{chance.randrange(60):02}:00"
    guest = {**GUEST, "instance_uuid": str(uuid.UUID(int=chance.randrange(9)))}
    process = {"event": "STARTED", "process_name": f"p{chance.randrange(5)}"}
    kind, payload = chance.choice((("COMPUTE_HOST", STOPPED), ("VM", guest), ("PROCESS", process)))
    name = chance.choice(("cmp1", "cmp2", "cmpm", "ghost"))
    fine = chance.choice(
        (
            post(S, segment(name=f"w{number}", description="d", enabled=True), version),
            put(f"{S}/{{s2}}", segment(name="s2", enabled=True), version),
            post(N, told(type=kind, hostname=name, generated_time=minute, payload=payload)),
        )
    )
    return replace(fine, body=_changed(chance, fine.body), words=True)


def _changed(chance: random.Random, body: Any) -> Any:
    body = json.loads(json.dumps(body))
    for _ in range(chance.choice((1, 1, 1, 2))):
        owner, key = chance.choice(list(_places(body)) or [(None, "")])
        if owner is None:
            return chance.choice(JUNK)
        match chance.randrange(10):
            case 0 | 1:
                del owner[key]
            case 2:
                owner[chance.choice(STRANGE)] = chance.choice(JUNK)
            case _:
                owner[key] = chance.choice(JUNK)
    return body


def _places(value: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from _places(inner)
