"""What is made of Pacemaker's answers: what it leaves out is unknown, and only a success is a proof."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from tests.contract.host_monitors.answers import (
    connection,
    fenced,
    member,
    membership,
    remote,
    status,
)
from tests.waiting import wait_for

from yaffle.drivers.host_monitors.pacemaker import PacemakerMonitor, Unreadable, read, seconds
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.ports import DriverContext, HostMark, HostReport, MonitorBlind, Seen

JOINED = membership(h1="true")


def seen(*parts: str, joined: str = JOINED, **more: str) -> dict[str, Seen]:
    report = read(status(*parts, **more), joined)
    return {sighting.host: sighting.seen for sighting in report.sightings}


@pytest.mark.parametrize(
    ("node", "role", "joined", "how"),
    [
        ({}, {}, "true", Seen.UP),
        # Newer ones write since when.
        ({}, {}, "1795938124", Seen.UP),
        # Called online while its connection only begins, for minutes.
        ({}, {"role": "Starting"}, "true", Seen.STARTING),
        ({}, {}, "false", Seen.STARTING),
        ({}, {}, "0", Seen.STARTING),
        ({"pending": "true"}, {}, "true", Seen.STARTING),
        ({"online": "false"}, {"role": "Starting"}, "false", Seen.LOST),
        ({"online": "false"}, {"role": "Stopped"}, "false", Seen.LOST),
        ({"online": "false", "unclean": "true"}, {"role": "Stopped"}, "false", Seen.LOST),
        ({"unclean": "true"}, {}, "true", Seen.LOST),
        (
            {"online": "false"},
            {"role": "Stopped", "target_role": "Stopped"},
            "false",
            Seen.STOPPED,
        ),
        # Stopped on purpose, and lost before it was: nobody knows what runs there.
        (
            {"online": "false", "unclean": "true"},
            {"role": "Stopped", "target_role": "Stopped"},
            "false",
            Seen.LOST,
        ),
        ({"maintenance": "true"}, {}, "true", Seen.MAINTENANCE),
        (
            {"online": "false", "maintenance": "true", "unclean": "true"},
            {},
            "false",
            Seen.MAINTENANCE,
        ),
        ({}, {"managed": "false"}, "true", Seen.MAINTENANCE),
    ],
)
def test_each_state_of_a_remote_host(node, role, joined, how):
    found = seen(remote("h1", **node), connection("h1", **role), joined=membership(h1=joined))
    assert found.get("h1") is how


def test_whether_a_host_is_off_now_is_said_by_the_cluster_and_not_by_its_history():
    lost = (remote("h1", online="false"), connection("h1", role="Stopped"), fenced("h1"))
    for since, off in (("0", False), ("1795942287", True)):
        (sighting,) = read(status(*lost), membership(h1="false", fenced=since)).sightings
        assert (sighting.seen, sighting.off) == (Seen.LOST, off)
        assert sighting.off_s == (int(since) or None)
        assert ("fenced and not back" in sighting.why) is off
    unclean = (remote("h1", online="false", unclean="true"), *lost[1:])
    (sighting,) = read(status(*unclean), membership(h1="false", fenced="1795942287")).sightings
    assert (sighting.off, sighting.off_s) == (False, None), "the cluster does not believe it"
    (sighting,) = read(status(*lost), "<none/>").sightings
    assert not sighting.off
    with pytest.raises(Unreadable, match="no time"):
        read(status(*lost), membership(h1="false", fenced="yes"))
    # What is not back is not up, whatever is said of it.
    well = (remote("h1"), connection("h1"))
    (sighting,) = read(status(*well), membership(h1="true", fenced="1795942287")).sightings
    assert (sighting.seen, sighting.off) == (Seen.STARTING, True)


def test_a_member_is_off_while_its_fencing_is_the_last_that_happened_to_it():
    for origin, crmd, off in (
        ("send_stonith_update", "offline", True),
        ("post_cache_update", "offline", False),
        ("send_stonith_update", "online", False),
    ):
        state = f'<a><node_state uname="c1" in_ccm="true" crmd="{crmd}" crm-debug-origin="{origin}"/></a>'
        (sighting,) = read(status(member("c1", online="false")), state, members=True).sightings
        assert sighting.off is off


def test_the_whole_cluster_can_be_under_maintenance_or_stopped():
    options = 'stonith-enabled="true" maintenance-mode="true"'
    assert seen(remote("h1"), connection("h1"), options=options) == {"h1": Seen.MAINTENANCE}
    options = 'stonith-enabled="true" stop-all-resources="true"'
    lost = (remote("h1", online="false"), connection("h1", role="Stopped"))
    assert seen(*lost, options=options) == {"h1": Seen.STOPPED}


def test_that_fencing_is_switched_off_is_said_of_a_lost_host():
    parts = (remote("h1", online="false"), connection("h1", role="Stopped"))
    (sighting,) = read(status(*parts, options='stonith-enabled="false"'), JOINED).sightings
    assert "stonith-enabled=false" in sighting.why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (status(coordinator='present="true" with_quorum="false"'), "no quorum"),
        (status(coordinator='present="false"'), "no coordinator"),
        (status(history=' status="102"'), "fencer cannot be asked"),
        (status(end='<status code="1" message="Error"/>'), "no status"),
        (status(end=""), "no status"),
        # Exit code 0, and nothing to go by.
        (
            '<pacemaker-result><status code="0"><error>No CIB</error></status></pacemaker-result>',
            "No CIB",
        ),
        (status().replace("<nodes></nodes>", ""), "nothing of nodes"),
        (status().replace("<resources></resources>", ""), "nothing of resources"),
        (status(remote("h1"), fenced("h1", completed="soon")), "no time"),
        ("", "no XML"),
        ("<pacemaker-result>", "no XML"),
    ],
)
def test_an_answer_that_is_not_whole_is_no_answer(answer, why):
    with pytest.raises(Unreadable, match=why):
        read(answer, JOINED)


@pytest.mark.parametrize(
    ("said", "is_proof"),
    [
        ({}, True),
        ({"action": "off"}, True),
        ({"action": "on"}, False),
        ({"status": "failed"}, False),
        ({"status": "pending"}, False),
    ],
)
def test_only_power_that_was_switched_off_with_success_is_a_proof(said, is_proof):
    report = read(status(remote("h1"), fenced("h1", **said)), JOINED)
    assert [f.host for f in report.fencings] == (["h1"] if is_proof else [])


def test_the_proof_says_who_did_what_and_when():
    answer = status(remote("h1"), fenced("h1"), fenced("h1", delegate="a human", action="off"))
    first, second = read(answer, JOINED).fencings
    assert first.at_s == 1_795_938_124
    assert first.proof == (
        "Pacemaker: reboot succeeded, by c1, for pacemaker-controld.52 of c1, completed"
        " 2026-11-29 07:42:04Z"
    )
    assert "confirmed by a person" in second.proof


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-29 07:42:04Z",
        "2026-11-29T07:42:04Z",
        "2026-11-29 08:42:04 +01:00",
        "2026-11-29 07:42:04",
        "Sun Nov 29 07:42:04 2026",
    ],
)
def test_times_of_several_versions_are_the_same_time(text):
    assert seconds(text) == 1_795_938_124


def test_members_guests_and_hosts_that_nobody_asked_for_are_left_out():
    parts = (
        remote("h1"),
        connection("h1"),
        remote("x1"),
        connection("x1"),
        member("c1"),
        '<node name="g1" online="true" type="guest"/>',
        fenced("c1"),
        fenced("x1"),
    )
    joined = membership(h1="true", x1="true", c1="true")
    report = read(status(*parts), joined, hosts=["h*"])
    assert [s.host for s in report.sightings] == ["h1"]
    assert report.fencings == ()
    report = read(status(*parts), joined, members=True)
    assert [s.host for s in report.sightings] == ["h1", "x1", "c1"]
    assert [f.host for f in report.fencings] == ["c1", "x1"]


def test_a_member_that_left_is_stopped_and_one_that_is_unclean_is_lost():
    for clean, how in (("false", Seen.STOPPED), ("true", Seen.LOST)):
        node = member("c1", online="false", unclean=clean)
        (sighting,) = read(status(node), membership(c1="false"), members=True).sightings
        assert sighting.seen is how


def test_a_remote_whose_connection_is_not_configured_any_more_is_not_seen():
    assert seen(remote("h1", online="false")) == {}


# --- marks ----------------------------------------------------------------------------------------

COMPLETED_S = 1_795_938_124
"""Of `fenced("h1")`."""
MARK = HostMark(host="h1", name="yaffle-host-failure", value="x", at_s=(COMPLETED_S - 20,))
BY_ATTRD = HostMark(host="h1", name="evacuate", value="yes", timeless=True)
GONE = (remote("h1", online="false"), connection("h1", "Stopped"))


def marked(*parts: str, mark: HostMark = MARK, off: str = "0") -> HostReport:
    return read(status(*GONE, *parts), membership(h1="false", fenced=off), marks=[mark])


def test_a_mark_that_nothing_else_shows_is_a_fencing_that_somebody_has_to_take_over():
    report = marked()
    (fencing,) = report.fencings
    assert (fencing.at_s, fencing.owed, fencing.within_s) == (COMPLETED_S - 20, True, 300)
    assert report.marks == (MARK,)
    assert not report.sightings[0].off, "it may have come back since"
    assert "marked as failed (yaffle-host-failure)" in report.sightings[0].why


def test_a_mark_is_the_fencing_that_it_was_written_in():
    (fencing,) = marked(fenced("h1")).fencings
    assert (fencing.at_s, fencing.owed, fencing.within_s) == (COMPLETED_S, True, 0)
    assert "by c1" in fencing.proof, "the history says more"
    (fencing,) = marked(off=str(COMPLETED_S - 1)).fencings
    assert (fencing.at_s, fencing.owed, fencing.within_s) == (COMPLETED_S - 1, True, 0)
    other, own = marked(fenced("h1", "2026-11-29 08:42:04Z")).fencings
    assert (other.owed, own.owed) == (False, True), "another fencing, an hour later"


@pytest.mark.parametrize("state", ["pending", "exec", "queued"])
def test_while_a_fencing_goes_on_its_mark_says_nothing_yet(state):
    for mark in (MARK, BY_ATTRD):
        report = marked(fenced("h1", status=state, completed=""), mark=mark)
        assert (report.fencings, report.sightings[0].off) == ((), False)
        assert report.marks == (mark,)


def test_what_attrd_says_of_a_host_that_is_lost_is_that_it_is_off_and_of_others_nothing():
    (sighting,) = marked(mark=BY_ATTRD).sightings
    assert (sighting.seen, sighting.off, sighting.off_s) == (Seen.LOST, True, None)
    for parts in (
        (remote("h1"), connection("h1")),
        (remote("h1", online="false", unclean="true"), connection("h1", "Stopped")),
        (remote("h1", online="false"), connection("h1", "Stopped", target_role="Stopped")),
    ):
        report = read(status(*parts), JOINED, marks=[BY_ATTRD])
        assert not report.sightings[0].off, parts


def test_a_mark_of_a_host_that_nobody_asked_for_is_left_alone():
    report = read(status(*GONE), membership(h1="false"), hosts=["x*"], marks=[MARK])
    assert (report.marks, report.fencings) == ((), ())


NODES = """<nodes><node id="1" uname="c1"/><node type="remote" id="h1" uname="h1"><instance_attributes
 id="i"><nvpair id="n" name="yaffle-host-failure" value="{}"/></instance_attributes></node></nodes>"""


@pytest.mark.parametrize(
    ("value", "times"),
    [
        ("1795938104", (COMPLETED_S - 20,)),
        ("1795938104,1795938999", (COMPLETED_S - 20, COMPLETED_S + 875)),
        ("yes", ()),
        ("1795938104,", ()),
        ("-5", ()),
        # In a year that nobody's clock can have.
        ("99999999999", ()),
        ("9999999999999999999999", ()),
    ],
)
def test_a_mark_that_says_no_time_is_told_to_people_and_left_alone(tmp_path, value, times):
    answers = {
        "crm_mon": status(*GONE),
        "nodes": NODES.format(value),
        "xpath": membership(h1="false"),
    }
    for name, text in answers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "crm_mon").rename(tmp_path / "status")
    asked = programs(
        tmp_path,
        f'case "$*" in *nodes) f=nodes;; *xpath*) f=xpath;; *) f=status;; esac; cat {tmp_path}/$f',
    )
    report = asyncio.run(asked.look(deadline_s=10))
    assert isinstance(report, HostReport)
    assert [mark.at_s for mark in report.marks] == [times]
    assert [f.at_s for f in report.fencings] == list(times)
    assert ("says no time and is left alone" in report.sightings[0].why) is (not times)
    assert report.fault.startswith("marked by nobody whom we know: h1 (") is (not times)


@pytest.mark.parametrize("value", ["1' or '1'='1", '1"'])
def test_a_mark_that_is_no_plain_word_is_not_put_into_a_question(tmp_path, value):
    mark = HostMark(host="h1", name="yaffle-host-failure", value=value)
    asked = programs(tmp_path, f"touch {tmp_path}/asked")
    assert "quotation mark" in asyncio.run(asked.clear(mark, deadline_s=5))
    assert not (tmp_path / "asked").exists()


def test_a_mark_that_cannot_be_removed_says_why(tmp_path):
    failing = programs(tmp_path, "echo 'no quorum' >&2; exit 1")
    said = asyncio.run(failing.clear(MARK, deadline_s=5))
    assert said == "cibadmin ended with 1: no quorum"
    hanging = programs(tmp_path, "sleep 300")
    assert "did not answer within 2 s" in asyncio.run(hanging.clear(MARK, deadline_s=2))


# --- programs that misbehave ----------------------------------------------------------------------


def programs(folder: Path, text: str) -> PacemakerMonitor:
    for name in ("crm_mon", "cibadmin"):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return monitor(programs=str(folder))


def monitor(**settings: object) -> PacemakerMonitor:
    return PacemakerMonitor(
        DriverContext(clock=SystemClock(), state_dir=Path("/nonexistent"), settings=settings)
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo 'Connection refused' >&2; exit 102", "ended with 102: Connection refused"),
        ("echo '<r><error>No space left</error></r>'; exit 1", "ended with 1: No space left"),
        ("exit 3", "ended with 3: no word"),
        ("echo nothing", "no XML"),
    ],
)
def test_a_program_that_fails_leaves_the_monitor_blind(tmp_path, text, why):
    answer = asyncio.run(programs(tmp_path, text).look(deadline_s=10))
    assert isinstance(answer, MonitorBlind)
    assert why in answer.why


def test_a_program_that_hangs_is_killed_with_all_that_it_started(tmp_path):
    blind = programs(tmp_path, f"sleep 300 & echo $! > {tmp_path}/pid; wait")
    began_s = time.monotonic()
    answer = asyncio.run(blind.look(deadline_s=2))
    assert time.monotonic() - began_s < 5
    assert isinstance(answer, MonitorBlind)
    assert "did not answer within 2 s" in answer.why
    started = int((tmp_path / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{started}").exists())


def test_a_machine_without_pacemaker_is_blind_and_says_so(tmp_path):
    answer = asyncio.run(monitor(programs=str(tmp_path)).look(deadline_s=5))
    assert answer == MonitorBlind(
        why=f"{tmp_path}/crm_mon cannot be run: No such file or directory"
    )


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"programs": "bin"}, "programs must be an absolute path"),
        ({"hosts": []}, "hosts must be a non-empty list"),
        ({"members": "no"}, "members must be true or false"),
        ({"attrd_mark": 1}, "attrd_mark must be a non-empty text"),
        ({"host": ["h*"]}, "hosts"),
    ],
)
def test_settings_that_say_nothing_are_refused(settings, named):
    with pytest.raises(ConfigError, match=named):
        monitor(**settings)
