"""HOST fencing with a scripted agent: off is what `status` says, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import structlog
from tests.contract.fencers_host.rack import (
    PLAIN,
    SECRET,
    Rack,
    command_lines,
    node,
)
from tests.given import given_clock
from tests.private import private

from yaffle.drivers.fencers.host.driver import QUIET_S, WORD_S
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError, DependencyError
from yaffle.model.ids import OperationId
from yaffle.model.operations import FenceResult, FenceVerdict, HostReading, PoweredOff
from yaffle.ports import Seen
from yaffle.testing import Fault, Rule, ScriptedHostMonitor, check_fencer

CONFIRMED, REFUSED, UNKNOWN = FenceVerdict.CONFIRMED, FenceVerdict.REFUSED, FenceVerdict.UNKNOWN


def test_a_fence_is_proved_by_status(rack: Rack) -> None:
    result = rack.fence(node())
    assert result.verdict is CONFIRMED, result
    assert rack.calls == ["status 7", "off 7", "status 7"]
    assert rack.power == "off"
    assert result.proof is not None
    assert result.proof.method == "fence_scripted off+status"
    assert "device rack1, host cmp1, plug 7" in result.proof.evidence
    assert result.off == PoweredOff(host="cmp1", reported="12:00")
    assert "status said off at 20" in result.proof.evidence
    assert result.proof.by == f"{socket.gethostname()}/{os.getpid()}"


def test_what_is_off_is_confirmed_by_status_alone(rack: Rack) -> None:
    for _ in range(2):
        result = rack.fence(node())
        assert result.verdict is CONFIRMED
    # As an engine that takes over would: it asks again and nothing is switched.
    assert rack.calls == ["status 7", "off 7", "status 7", "status 7"]
    assert result.proof is not None
    assert result.proof.method == "fence_scripted status"
    assert "already off" in result.proof.evidence


def test_the_kit_finds_nothing(rack: Rack) -> None:
    async def runs() -> bool:
        return rack.power == "on"

    with given_clock() as clock:
        asyncio.run(check_fencer(rack.fencer(), node(), runs, clock=clock))


def test_the_only_host_of_a_device_needs_no_plug(rack: Rack) -> None:
    rack.settings["hosts"] = ["cmp2"]
    rack.options["ip"] = "10.0.0.12"
    result = rack.fence(node("cmp2"))
    assert result.proof is not None, result
    assert "plug" not in rack.seen["options"]  # type: ignore[operator]
    assert "device rack1, host cmp2, ip 10.0.0.12: " in result.proof.evidence


def test_one_hosts_off_is_believed_of_no_other(rack: Rack) -> None:
    rack.settings["hosts"] = ["cmp1", "cmp2"]
    with pytest.raises(ConfigError, match="asked the same of cmp1 and of cmp2"):
        rack.fencer()
    assert rack.calls == []


def test_a_host_may_have_options_of_its_own(rack: Rack) -> None:
    rack.settings["hosts"] = {"cmp1": {"plug": 3, "ip": "10.0.0.11", "lanplus": True}}
    assert rack.fence(node()).verdict is CONFIRMED
    told = {"plug": "3", "ip": "10.0.0.11", "lanplus": "1", "username": "admin"}
    assert told.items() <= rack.seen["options"].items()  # type: ignore[attr-defined]


# --- may it be fenced? ---


def test_a_host_that_is_up_is_refused(rack: Rack) -> None:
    rack.cloud.told["cmp1"] = HostReading(name="cmp1", up=True, detail="up")
    result = rack.fence(node())
    assert result.verdict is REFUSED
    assert "would kill every guest" in result.detail
    assert rack.calls == []


def test_a_host_of_which_nothing_is_known_is_unknown(rack: Rack) -> None:
    rack.cloud.told["cmp1"] = HostReading(name="cmp1", up=None, detail="503")
    assert rack.fence(node()).verdict is UNKNOWN
    rack.cloud.told["cmp1"] = HostReading(name="", up=None, detail="503")
    assert rack.fence(node()).verdict is UNKNOWN
    for error in (DependencyError("503"), ConnectionResetError("reset"), TimeoutError("late")):
        rack.cloud.told["cmp1"] = error
        assert rack.fence(node()).verdict is UNKNOWN
    assert rack.calls == []


def test_even_while_up_asks_only_where_the_node_is(rack: Rack) -> None:
    rack.settings["even_while_up"] = True
    rack.cloud.told["cmp1"] = HostReading(name="", up=None, detail="503")
    assert rack.fence(node()).verdict is UNKNOWN
    assert rack.calls == []
    rack.cloud.told["cmp1"] = HostReading(name="cmp1", up=True, detail="up")
    assert rack.fence(node()).verdict is CONFIRMED


def test_where_the_node_is_now_decides_and_not_where_it_was(rack: Rack) -> None:
    rack.cloud.told["cmp1"] = HostReading(name="cmp2", up=True, detail="moved there, up")
    assert rack.fence(node("cmp1", noted="cmp1")).verdict is REFUSED
    assert rack.calls == []


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(HostReading(name="", up=False, detail="", exists=False), id="never placed"),
        pytest.param(HostReading(name="cmp9", up=False, detail="down"), id="no device"),
    ],
)
def test_a_host_that_nobody_can_switch_is_refused(rack: Rack, reading: HostReading) -> None:
    rack.cloud.told["cmp1"] = reading
    assert rack.fence(node()).verdict is REFUSED
    assert rack.calls == []


def test_without_a_cloud_only_the_operators_word_allows_it(rack: Rack) -> None:
    alone = node(kind=PLAIN, noted="cmp1")
    result = rack.fence(alone)
    assert result.verdict is REFUSED
    assert "even_while_up" in result.detail
    rack.settings["even_while_up"] = True
    for noted in (None, "", 7):
        assert rack.fence(node(kind=PLAIN, noted=noted)).verdict is REFUSED
    assert rack.calls == []
    assert rack.fence(alone).verdict is CONFIRMED


def test_nobody_fences_the_machine_they_run_on(rack: Rack) -> None:
    for own in (socket.gethostname(), f"{socket.gethostname()}.example.org"):
        rack.settings["hosts"] = [own]
        result = rack.fence(node(own))
        assert result.verdict is REFUSED
        assert "this engine runs on" in result.detail
    assert rack.calls == []


# --- a switch that says off of whatever it is asked ---


class Later(SystemClock):
    """A clock that is put forward by hand."""

    by_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.by_s


CALLED_DOWN = HostReading(name="cmp1", up=False, detail="down", forced_down=True, reported="12:00")
HEARD = [
    pytest.param(CALLED_DOWN, id="somebody has called it down"),
    pytest.param(replace(CALLED_DOWN, up=True, forced_down=False), id="fenced although it is up"),
]


@pytest.mark.parametrize("reading", HEARD)
def test_an_off_of_a_host_that_goes_on_reporting_is_not_believed(
    rack: Rack, reading: HostReading
) -> None:
    rack.settings["even_while_up"] = True
    rack.plan(status={"exit": 2, "print": "Status: OFF"})
    fencer = rack.fencer(clock := Later())
    for minute in range(5):
        rack.cloud.told["cmp1"] = replace(reading, reported=f"12:0{minute}")
        result = rack.fence(node(), fencer=fencer)
        assert result.verdict is UNKNOWN, result
        assert f"says off, but host cmp1 reported at 12:0{minute}" in result.detail
        clock.by_s += 10
    assert "off 7" not in rack.calls


@pytest.mark.parametrize("reading", HEARD)
def test_it_is_believed_once_the_host_is_silent(rack: Rack, reading: HostReading) -> None:
    rack.settings["even_while_up"] = True
    (rack.folder / "power").write_text("off")
    rack.cloud.told["cmp1"] = reading
    fencer = rack.fencer(clock := Later())
    assert rack.fence(node(), fencer=fencer).verdict is UNKNOWN
    clock.by_s += QUIET_S
    assert rack.fence(node(), fencer=fencer).verdict is CONFIRMED


def test_it_is_believed_where_the_same_switch_has_said_on(rack: Rack) -> None:
    """An `off` that took longer than a call: the next call finds the host off."""
    rack.settings["even_while_up"] = True
    rack.cloud.told["cmp1"] = HostReading(name="cmp1", up=True, detail="up")
    rack.plan(off={"ignore": True})
    fencer = rack.fencer()
    enough = lambda _: "off 7" in rack.calls  # noqa: E731
    assert rack.fence_on(node(), deadline_s=2, enough=enough, fencer=fencer).verdict is UNKNOWN
    (rack.folder / "power").write_text("off")
    assert rack.fence(node(), fencer=fencer).verdict is CONFIRMED
    assert rack.fence(node(), fencer=fencer).verdict is CONFIRMED, "of the next node there as well"
    assert "does not say when it did last" in rack.fence(node()).detail, "to who takes over"


def test_what_it_supports(rack: Rack) -> None:
    fencer = rack.fencer()
    assert fencer.supports(node())
    assert fencer.supports(node(kind=PLAIN, noted="cmp1"))
    assert not fencer.supports(node(kind=PLAIN, noted="cmp9"))
    assert not fencer.supports(node(kind=PLAIN))


# --- odd agents ---


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        pytest.param({"exit": 1, "complain": "Unable to connect/login"}, UNKNOWN, id="exit 1"),
        pytest.param({"exit": 3}, UNKNOWN, id="another exit"),
        pytest.param({"exit": 2, "complain": "usage: agent [-h]"}, UNKNOWN, id="argparse says 2"),
        pytest.param({"exit": 2, "print": "Status: ON"}, UNKNOWN, id="2, but says on"),
        pytest.param({"exit": 0, "print": "Status: OFF"}, UNKNOWN, id="0, but says off"),
        pytest.param({"exit": 2, "print": "Status: ON\nStatus: OFF"}, UNKNOWN, id="says both"),
        pytest.param({"signal": 9}, UNKNOWN, id="killed"),
        pytest.param({"exit": 2}, CONFIRMED, id="2, and silent"),
        pytest.param(
            {"exit": 2, "print": "Status: OFF", "complain": "delayed"}, CONFIRMED, id="off"
        ),
    ],
)
def test_what_a_status_means(rack: Rack, status: dict[str, object], verdict: FenceVerdict) -> None:
    rack.plan(status=status)
    result = rack.fence(node())
    assert result.verdict is verdict, result
    # What could not be read is not switched either: it could never be proved.
    assert rack.calls == ["status 7"]
    assert rack.power == "on"


def test_a_device_that_says_ok_and_stays_on_is_unknown(rack: Rack) -> None:
    rack.plan(off={"ignore": True})
    result = rack.fence_on(node(), deadline_s=2, enough=lambda _: rack.calls.count("status 7") > 1)
    assert result.verdict is UNKNOWN
    assert "Status: ON" in result.detail
    assert rack.calls.count("off 7") == 1
    assert rack.calls.count("status 7") > 1


def test_an_off_that_fails_but_works_is_proved_all_the_same(rack: Rack) -> None:
    rack.plan(off={"exit": 1, "complain": "Failed: Timed out waiting to power OFF"})
    rack.switch_off_once_told()
    assert rack.fence(node()).verdict is CONFIRMED
    assert "off 7" in rack.calls


def test_an_option_that_the_agent_does_not_know_is_refused(rack: Rack) -> None:
    rack.plan(status={"complain": "WARNING: Parse error: Ignoring unknown option 'plg=7'"})
    result = rack.fence(node())
    assert result.verdict is REFUSED
    assert rack.calls == ["status 7"]


def test_a_flood_is_bounded(rack: Rack) -> None:
    rack.plan(status={"flood": 50}, off={"flood": 50, "exit": 1})
    result = rack.fence(node(), deadline_s=3)
    assert len(result.detail) < 1000


def test_an_agent_that_is_gone_is_unknown(rack: Rack) -> None:
    fencer = rack.fencer()
    rack.agent.unlink()
    result = rack.fence(node(), fencer=fencer)
    assert result.verdict is UNKNOWN
    assert "could not be started" in result.detail


def test_a_password_file_that_is_gone_is_unknown(rack: Rack) -> None:
    fencer = rack.fencer()
    (rack.folder / "password").unlink()
    result = rack.fence(node(), fencer=fencer)
    assert result.verdict is UNKNOWN
    assert "password_file" in result.detail
    assert rack.calls == []


# --- secrets ---


@pytest.mark.parametrize("where", ["print", "complain"])
def test_secrets_are_nowhere_to_be_read(rack: Rack, where: str) -> None:
    private(rack.folder / "community", "qu1et-community")
    rack.settings["secret_files"] = {"community": str(rack.folder / "community")}
    told = "login admin:{password} ({community}) failed"
    rack.plan(
        status={"wait": 0.7},
        off={where: told, "exit": 1},
    )
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.update(command_lines().values())

    def was_seen() -> bool:
        return any(str(rack.agent) in words for words in list(seen))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with structlog.testing.capture_logs() as logs:
            fencer = rack.fencer()
            result = rack.fence_on(
                node(),
                deadline_s=3,
                # It may have begun and ended while nobody looked.
                enough=lambda r: "off: exit 1" in r.detail and was_seen(),
                fencer=fencer,
            )
    finally:
        over.set()
        watcher.join()
    assert result.verdict is UNKNOWN
    assert "off: exit 1: login admin:*** (***) failed" in result.detail
    assert was_seen(), "nobody saw it run"
    assert rack.seen["options"]["password"] == SECRET  # type: ignore[index]
    everything = [*seen, repr(logs), repr(result), repr(fencer.__dict__), str(rack.seen["env"])]
    assert [text for text in everything if SECRET in text or "qu1et" in text] == []
    assert rack.seen["argv"] == [str(rack.agent)]


def test_an_agent_gets_little_of_us(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YAFFLE_DATABASE__URL", "postgresql://u:p@h/d")
    rack.fence(node())
    assert set(rack.seen["env"]) <= {"PATH", "LANG", "LC_ALL", "HOME", "LC_CTYPE"}  # type: ignore[call-overload]
    assert rack.seen["cwd"] == "/"


def test_a_new_password_needs_no_restart(rack: Rack) -> None:
    fencer = rack.fencer()
    (rack.folder / "password").write_text("another")
    rack.fence(node(), fencer=fencer)
    assert rack.seen["options"]["password"] == "another"  # type: ignore[index]


# --- many at once ---


def test_nodes_of_one_host_share_one_run(rack: Rack) -> None:
    rack.plan(status={"wait": 0.3})

    async def all_at_once() -> list[FenceVerdict]:
        fencer = rack.fencer()
        async with asyncio.TaskGroup() as tasks:
            done = [
                tasks.create_task(
                    fencer.fence(
                        node("cmp1", f"n{number}"),
                        operation_id=OperationId(f"op-{number}"),
                        deadline_s=60,
                    )
                )
                for number in range(20)
            ]
        return [task.result().verdict for task in done]

    assert asyncio.run(all_at_once()) == [CONFIRMED] * 20
    assert rack.calls == ["status 7", "off 7", "status 7"]


def test_who_gives_up_first_does_not_leave_the_others_alone(rack: Rack) -> None:
    rack.plan(status={"wait": 0.5})

    async def one_gives_up() -> FenceVerdict:
        fencer = rack.fencer()
        ask = lambda n: fencer.fence(  # noqa: E731
            node("cmp1", n), operation_id=OperationId(n), deadline_s=60
        )
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(ask("a"))
            await asyncio.sleep(0)
            second = tasks.create_task(ask("b"))
            while not rack.calls:
                await asyncio.sleep(0.02)
            first.cancel()
        return second.result().verdict

    assert asyncio.run(one_gives_up()) is CONFIRMED
    assert rack.calls[-3:] == ["status 7", "off 7", "status 7"]


# --- a host as such -------------------------------------------------------------------------------


def fence_host(rack: Rack, host: str, deadline_s: float = 5.0) -> FenceResult:
    return asyncio.run(rack.fencer().fence_host(host, deadline_s=deadline_s))


def test_a_host_is_fenced_as_such_and_proved_by_status(rack: Rack) -> None:
    result = fence_host(rack, "cmp1")
    assert result.verdict is CONFIRMED, result
    assert rack.calls == ["status 7", "off 7", "status 7"]
    assert result.proof is not None
    assert "device rack1, host cmp1, plug 7" in result.proof.evidence
    assert fence_host(rack, "cmp1").verdict is CONFIRMED
    assert rack.calls[3:] == ["status 7"], "again is no second act"


def test_a_host_without_a_device_and_the_one_that_we_run_on_are_refused(rack: Rack) -> None:
    result = fence_host(rack, "cmp9")
    assert (result.verdict, result.proof) == (REFUSED, None)
    assert "no device in drivers.HOST.devices switches host cmp9" in result.detail
    rack.settings["hosts"] = {socket.gethostname(): "7"}
    result = fence_host(rack, socket.gethostname())
    assert result.verdict is REFUSED
    assert "this engine runs on host" in result.detail
    assert rack.calls == []


def test_a_host_whose_switch_does_not_answer_is_not_proved_off(rack: Rack) -> None:
    rack.plan(off={"ignore": True})
    result = fence_host(rack, "cmp1", deadline_s=3.0)
    assert (result.verdict, result.proof) == (UNKNOWN, None)


def test_devices_of_one_address_are_one_device(rack: Rack) -> None:
    rack.settings["hosts"] = {"cmp1": "1", "cmp2": "2"}
    fencer = rack.fencer()
    assert fencer.device_of("cmp1") == fencer.device_of("cmp2") != ""
    assert fencer.device_of("cmp9") == ""
    rack.settings["hosts"] = {"cmp1": {"ip": "10.0.0.1"}, "cmp2": {"ip": "10.0.0.2"}}
    fencer = rack.fencer()
    assert fencer.device_of("cmp1") == "fence_scripted 10.0.0.1"
    assert fencer.device_of("cmp2") == "fence_scripted 10.0.0.2"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"exit": 1, "complain": "Unable to connect/login"}, "plug 7: exit 1: Unable to connect"),
        ({"exit": 0, "print": "Status: OFF"}, "device rack1, host cmp1, plug 7: "),
        (
            {"exit": 2, "complain": "unknown option 'lanplus'"},
            "does not know one of its options",
        ),
        ({"wait": 60}, "plug 7: "),
    ],
    ids=("refused", "contradicts itself", "an option", "hangs"),
)
def test_a_device_that_would_fail_is_found_and_nothing_is_switched(
    rack: Rack, status: dict[str, object], said: str
) -> None:
    def faults(*leave: str) -> Mapping[str, str | None]:
        return asyncio.run(rack.fencer().device_faults(leave=leave, deadline_s=3.0))

    assert faults() == {"cmp1": "", "cmp2": ""}
    assert sorted(rack.calls) == ["status 7", "status 8"]
    rack.plan(status=status)
    found = faults("cmp9")
    assert said in str(found["cmp1"])
    asked = len(rack.calls)
    assert faults("cmp2") == {"cmp1": None, "cmp2": None}, "its device is used to fence a host"
    assert len(rack.calls) == asked
    assert {call.split()[0] for call in rack.calls} == {"status"}


# --- a host that its own cluster has fenced -------------------------------------------------------


def cluster(rack: Rack, name: str = "pcmk") -> ScriptedHostMonitor:
    """Put a cluster beside the rack in which cmp1 is lost."""
    monitor = ScriptedHostMonitor(SystemClock())
    monitor.seen = {"cmp1": Seen.LOST, "cmp2": Seen.UP}
    rack.monitors[name] = monitor
    return monitor


@pytest.mark.parametrize("devices", [True, False])
def test_what_its_cluster_has_fenced_is_proved_by_it_and_no_switch_is_asked(
    rack: Rack, devices: bool
) -> None:
    rack.devices = devices
    done = cluster(rack).fence("cmp1", ago_s=70)
    result = rack.fence(node())
    assert (result.verdict, rack.calls) == (CONFIRMED, [])
    assert result.proof is not None
    assert result.proof.method == "scripted pcmk"
    assert done.proof in result.proof.evidence
    assert result.off == PoweredOff(host="cmp1", reported="12:00", since_s=done.at_s)
    assert rack.fencer().supports(node())
    assert rack.fencer().lacking() == ""


@pytest.mark.parametrize("up", [True, None])
def test_a_fenced_host_that_the_backend_does_not_miss_may_be_back_with_its_guests(
    rack: Rack, up: bool | None
) -> None:
    """Its cluster reboots it, and its agent may report before its cluster has it back."""
    cluster(rack).fence("cmp1")
    rack.cloud.told["cmp1"] = HostReading(name="cmp1", up=up, detail="", reported="12:01")
    result = rack.fence(node())
    assert (result.verdict, rack.calls) == (UNKNOWN, [])
    assert "the backend does not miss host cmp1" in result.detail


def test_a_fenced_host_that_somebody_has_forced_down_is_watched_until_it_is_silent(
    rack: Rack,
) -> None:
    cluster(rack).fence("cmp1")
    rack.cloud.told["cmp1"] = HostReading(
        name="cmp1", up=False, detail="", reported="12:01", forced_down=True
    )
    clock = SystemClock()
    fencer = rack.fencer(clock)

    async def twice() -> list[FenceResult]:
        asked = {"operation_id": OperationId("f"), "deadline_s": 5.0}
        first = await fencer.fence(node(), **asked)  # type: ignore[arg-type]
        fencer._reports["cmp1"] = ("12:01", clock.monotonic_s() - QUIET_S)
        return [first, await fencer.fence(node(), **asked)]  # type: ignore[arg-type]

    first, later = asyncio.run(twice())
    assert first.verdict is UNKNOWN
    assert "it is watched whether it does again" in first.detail
    assert later.verdict is CONFIRMED


def test_what_its_cluster_does_not_call_off_is_left_to_the_switch(rack: Rack) -> None:
    monitor = cluster(rack)
    # It was fenced once, and came back.
    monitor.fence("cmp1", ago_s=900)
    monitor.off.clear()
    result = rack.fence(node())
    assert result.verdict is CONFIRMED
    assert rack.calls == ["status 7", "off 7", "status 7"]
    rack.devices = False
    result = rack.fence(node())
    assert result.verdict is REFUSED
    assert "host monitor pcmk: scripted: lost" in result.detail, "what its cluster says is told"


def test_a_host_that_is_being_fenced_is_not_proved_off_yet(rack: Rack) -> None:
    rack.devices = False
    monitor = cluster(rack)
    monitor.fence("cmp1")
    monitor.busy.add("cmp1")
    assert rack.fence(node()).verdict is REFUSED


def test_a_cluster_that_cannot_tell_proves_nothing_and_hides_no_other(rack: Rack) -> None:
    rack.devices = False
    for fault in (Fault.FAIL, Fault.RAISE, Fault.HANG):
        blind = cluster(rack, "blind")
        blind.fence("cmp1")
        blind.plan.rules.append(Rule(fault=fault, call="look"))
        result = rack.fence(node(), deadline_s=2.0)
        assert result.verdict is not CONFIRMED
        assert "host monitor blind cannot tell" in result.detail
        cluster(rack).fence("cmp1")
        assert rack.fence(node(), deadline_s=4.0).verdict is CONFIRMED
        rack.monitors.clear()


def test_a_host_of_a_like_name_is_another_one(rack: Rack) -> None:
    rack.devices = False
    monitor = cluster(rack)
    monitor.seen = {"cmp1.example.org": Seen.LOST}
    monitor.fence("cmp1.example.org")
    assert rack.fence(node()).verdict is REFUSED
    rack.names["cmp1"] = "cmp1.example.org"
    assert rack.fence(node()).verdict is CONFIRMED, "the settings say that it is the same"


def test_of_two_clouds_a_host_is_its_own_clusters_alone(rack: Rack) -> None:
    rack.devices = False
    cluster(rack).fence("cmp1")
    elsewhere = replace(node(), attributes={"cloud": "east"})
    result = rack.fence(elsewhere)
    assert result.verdict is REFUSED
    assert "host monitor pcmk is not said to see hosts of cloud east" in result.detail
    rack.clouds["pcmk"] = "west"
    assert rack.fence(elsewhere).verdict is REFUSED
    rack.clouds["pcmk"] = "east"
    assert rack.fence(elsewhere).verdict is CONFIRMED


def test_the_nodes_of_a_host_ask_its_cluster_together(rack: Rack) -> None:
    monitor = cluster(rack)
    monitor.fence("cmp1")
    fencer = rack.fencer()

    async def all_of_them() -> list[FenceResult]:
        return await asyncio.gather(
            *(
                fencer.fence(node(name=f"web-{n}"), operation_id=OperationId("f"), deadline_s=5.0)
                for n in range(15)
            )
        )

    assert {result.verdict for result in asyncio.run(all_of_them())} == {CONFIRMED}
    assert monitor.looks <= 2


# --- a host that somebody says is off ---------------------------------------------------------------


def told(rack: Rack, *, ago_s: float = 30.0) -> int:
    """Have somebody say that cmp1 is off since then, and nothing more; return since when."""
    monitor = cluster(rack)
    since_s = monitor.fence("cmp1", ago_s=ago_s).at_s
    monitor.fencings.clear()
    monitor.words.add("cmp1")
    return since_s


def heard(rack: Rack, at_s: float, *, forced_down: bool = False) -> None:
    """Have the backend miss cmp1, and say when it heard of it last."""
    reported = datetime.fromtimestamp(at_s, UTC).replace(tzinfo=None).isoformat()
    rack.cloud.told["cmp1"] = HostReading(
        name="cmp1", up=False, detail="", reported=reported, forced_down=forced_down
    )


def test_a_word_is_proof_while_nothing_has_been_heard_of_the_host_since(rack: Rack) -> None:
    rack.devices = False
    since_s = told(rack)
    heard(rack, since_s - 5)
    result = rack.fence(node())
    assert (result.verdict, rack.calls) == (CONFIRMED, [])
    assert result.off is not None
    assert (result.off.since_s, result.off.word) == (since_s, True)


@pytest.mark.parametrize("reported", ["", "12:00 or so"])
def test_a_word_proves_nothing_where_nobody_says_when_the_host_was_heard_of(
    rack: Rack, reported: str
) -> None:
    rack.devices = False
    told(rack)
    rack.cloud.told["cmp1"] = HostReading(name="cmp1", up=False, detail="", reported=reported)
    result = rack.fence(node())
    assert result.verdict is UNKNOWN
    assert "does not say when it heard of host cmp1 last" in result.detail


def test_a_host_that_has_reported_since_the_word_may_run_its_guests(rack: Rack) -> None:
    rack.devices = False
    since_s = told(rack, ago_s=3600)
    heard(rack, since_s + 1)
    result = rack.fence(node())
    assert result.verdict is UNKNOWN
    assert "host cmp1 has reported since" in result.detail
    assert "no device" in result.detail, "why nothing else proves it is told, too"


@pytest.mark.parametrize("up", [True, None])
def test_a_word_proves_nothing_of_a_host_that_the_backend_does_not_miss(
    rack: Rack, up: bool | None
) -> None:
    rack.devices = False
    told(rack)
    rack.cloud.told["cmp1"] = HostReading(
        name="cmp1", up=up, detail="", reported="2026-01-01T00:00"
    )
    result = rack.fence(node())
    assert result.verdict is UNKNOWN
    assert "the backend does not miss host cmp1" in result.detail


@pytest.mark.parametrize("first", ["word", "seen"])
def test_what_another_monitor_has_seen_counts_before_a_word(rack: Rack, first: str) -> None:
    rack.devices = False
    done = None
    for kind in ("word", "seen") if first == "word" else ("seen", "word"):
        if kind == "word":
            heard(rack, told(rack) + 1)
            rack.monitors[kind] = rack.monitors.pop("pcmk")
        else:
            done = cluster(rack, kind).fence("cmp1", ago_s=5)
    result = rack.fence(node())
    assert result.verdict is CONFIRMED
    assert done is not None
    assert result.off is not None
    assert (result.off.since_s, result.off.word) == (done.at_s, False)


@pytest.mark.parametrize("first", ["word", "seen"])
def test_a_word_proves_nothing_of_a_host_that_another_monitor_sees_up(
    rack: Rack, first: str
) -> None:
    rack.devices = False
    heard(rack, told(rack) - 5)
    up = ScriptedHostMonitor(SystemClock())
    up.seen = {"cmp1": Seen.UP}
    rack.monitors["up"] = up
    if first == "seen":
        rack.monitors["pcmk"] = rack.monitors.pop("pcmk")
    result = rack.fence(node())
    assert (result.verdict, result.proof) == (REFUSED, None)


def test_a_word_that_does_not_hold_is_left_to_the_switch(rack: Rack) -> None:
    heard(rack, told(rack) + 1)
    result = rack.fence(node())
    assert result.verdict is CONFIRMED
    assert rack.calls == ["status 7", "off 7", "status 7"]
    assert result.off is not None
    assert not result.off.word


def test_of_a_host_that_is_called_down_an_old_word_proves_nothing(rack: Rack) -> None:
    """Its last report cannot be told from that: it may have been back, and be cut off now."""
    rack.devices = False
    heard(rack, told(rack, ago_s=WORD_S + 60), forced_down=True)
    clock = SystemClock()
    fencer = rack.fencer(clock)
    reported = rack.cloud.told["cmp1"].reported
    fencer._reports["cmp1"] = (reported, clock.monotonic_s() - QUIET_S)
    asked = {"operation_id": OperationId("f"), "deadline_s": 5.0}
    result = asyncio.run(fencer.fence(node(), **asked))  # type: ignore[arg-type]
    assert result.verdict is UNKNOWN
    assert "whether it has been back meanwhile cannot be told" in result.detail


def test_of_a_host_that_is_called_down_a_new_word_counts_once_it_was_silent(rack: Rack) -> None:
    rack.devices = False
    heard(rack, told(rack), forced_down=True)
    clock = SystemClock()
    fencer = rack.fencer(clock)
    reported = rack.cloud.told["cmp1"].reported

    async def twice() -> list[FenceResult]:
        asked = {"operation_id": OperationId("f"), "deadline_s": 5.0}
        first = await fencer.fence(node(), **asked)  # type: ignore[arg-type]
        fencer._reports["cmp1"] = (reported, clock.monotonic_s() - QUIET_S)
        return [first, await fencer.fence(node(), **asked)]  # type: ignore[arg-type]

    assert [one.verdict for one in asyncio.run(twice())] == [UNKNOWN, CONFIRMED]
