"""What a watch makes of servers, decisions and a week: groups, changes, sentences, sums."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.unit.core.build import STATUS, memory, observation

from yaffle.cli.dry_run import messages, policy, report
from yaffle.cli.dry_run.app import aside
from yaffle.cli.dry_run.grouping import By, Rule, group_of, rule_of
from yaffle.cli.dry_run.inventory import change
from yaffle.cli.dry_run.messages import Failing, Kind, Line
from yaffle.cli.dry_run.paths import default
from yaffle.cli.dry_run.report_store import About, Entry
from yaffle.cli.dry_run.reporter import as_failed, wish_of
from yaffle.core.health.verdict import NodeMemory, Track, resettle
from yaffle.engine.commands.adopt import node_id_of
from yaffle.errors import InvalidSpec
from yaffle.model.health import Health, Hint
from yaffle.model.incident import HoldReason
from yaffle.model.operations import Present
from yaffle.model.policy import RecoveryMode

KIND = "os.nova.server-1.0"
SHOP = {"p": "shop"}
FAILING = Failing(
    node="web-1", cluster="shop", word="ERROR", looks=3, since_us=1_000_000, problem="it failed"
)


def server(name: str = "web-1", *, ident: str = "", owner: str = "", **facts: object) -> Present:
    return Present(
        physical_id=ident or f"id-{name}",
        name=name,
        detail="status ACTIVE",
        owner=owner,
        facts={"project_id": "p", **facts},
    )


@pytest.mark.parametrize(
    ("rule", "facts", "name"),
    [
        pytest.param("project", {}, "shop", id="project"),
        pytest.param("zone", {"zone": "az1"}, "az1", id="zone"),
        pytest.param("zone", {}, "no-zone", id="no-zone"),
        pytest.param("server-group", {"group_id": "g", "group": "apart"}, "apart", id="group"),
        pytest.param("server-group", {}, "no-server-group", id="no-group"),
        pytest.param("metadata:tier", {"metadata": {"tier": "a/b"}}, "a_b", id="metadata"),
        pytest.param("metadata:tier", {"metadata": {"x": "y"}}, "no-tier", id="no-metadata"),
        pytest.param("name-prefix", {}, "web", id="name-prefix"),
    ],
)
def test_a_server_is_in_the_group_that_the_rule_says(
    rule: str, facts: Mapping[str, object], name: str
) -> None:
    assert group_of(rule_of(rule), server(**facts), SHOP).name == name


@pytest.mark.parametrize("text", ["", "colour", "metadata", "metadata:", "zone:x", "project:y"])
def test_a_rule_that_is_none_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="metadata:KEY"):
        rule_of(text)


def test_a_group_is_of_one_project_and_named_after_it_where_there_are_several() -> None:
    rule = Rule(by=By.ZONE)
    mine = group_of(rule, server(zone="a"), SHOP)
    both = {"p": "shop", "q": "bank"}
    other = group_of(rule, server(project_id="q", zone="a"), both)
    assert mine.key != other.key
    assert (mine.name, other.name) == ("a", "bank.a")


def test_what_is_new_moved_missing_or_somebody_elses_is_told_apart() -> None:
    first = change(KIND, Rule(), [server("a"), server("b"), server("c", owner="n-9")], SHOP, {})
    assert [one.name for one in first.new] == ["a", "b"]
    assert [one.name for one in first.claimed] == ["c"]
    assert first.sizes == {"shop": 2}
    ours = node_id_of(KIND, "id-a")
    assert first.new[0].node_id == ours


def test_names_that_no_path_can_carry_are_carried_all_the_same() -> None:
    odd = [server("a/b\n", ident="1"), server("  ", ident="2"), server("..", ident="3")]
    found = change(KIND, Rule(), odd, SHOP, {})
    assert [one.name for one in found.new] == ["a_b_", "2", "unnamed"]


def test_the_usual_policy_is_accepted_and_observes() -> None:
    for interval_s in (1.0, 15.0, 60.0):
        found = policy.observing(policy.usual(interval_s, hosts=True))
        assert found.health.recovery.mode is RecoveryMode.OBSERVE
        assert found.health.detection.interval_s == interval_s


def test_no_document_makes_a_watch_recover() -> None:
    document = policy.usual()
    properties = document["properties"]
    assert isinstance(properties, dict)
    properties["recovery"]["mode"] = "recover"
    assert policy.observing(document).health.recovery.mode is RecoveryMode.OBSERVE
    with pytest.raises(InvalidSpec, match=r"a watch needs 1\.3"):
        policy.observing({**document, "version": "1.2"})


def test_a_line_says_what_why_and_behind_which_fence() -> None:
    recovery = policy.observing(policy.usual()).health.recovery
    line = messages.would(FAILING, recovery, 31_000_000)
    assert line.text == (
        "web-1 (shop) has been ERROR for 3 looks, 30.0 s since the first: Yaffle would have tried"
        " REBOOT (type HARD); had that not helped: REBUILD, then RECREATE"
    )
    more = dict(line.more)
    assert more["because"] == "it failed"
    assert "proof that the old copy has ended" in more["fence"]
    assert line.as_json(0)["more"]["held_by"] == messages.OBSERVED  # type: ignore[index]


def test_a_hold_is_told_with_its_numbers() -> None:
    numbers = {"sick": 8, "suspect": 1, "threshold": 4, "capacity": 10}
    line = messages.held(FAILING, HoldReason.STORM, numbers, 31_000_000)
    assert "left it alone for now" in line.text
    assert "storm: 8 of 10 nodes are unhealthy or being healed" in dict(line.more)["held by"]


def test_many_lines_alike_are_printed_as_one_and_few_as_they_are() -> None:
    def lines(count: int) -> list[tuple[Line, int]]:
        data = {"group": "shop", "reason": "storm"}
        return [(Line(kind=Kind.HELD, text=str(n), data=data), n) for n in range(count)]

    assert messages.calm(lines(messages.MANY)) == lines(messages.MANY)
    shown = [line.text for line, _ in messages.calm(lines(40))]
    assert shown == ["0", "… and 39 more like it in shop, at once"]


def entry(seq: int, kind: Kind, node: str = "", incident: str = "", **data: object) -> Entry:
    about = About(node_id=node, node=node, cluster_id="c", incident_id=incident or None)
    return Entry(
        seq=seq, at_us=seq * 1_000_000, kind=kind, text=f"{kind} {node}", data=data,
        about=about if node else None,
    )  # fmt: skip


def test_a_week_is_counted_by_incidents() -> None:
    found = report.summed(
        [
            entry(1, Kind.BEGAN, unseen=["hosts"]),
            entry(2, Kind.HELD, "a", "i-1", reason="storm"),
            entry(3, Kind.WOULD, "a", "i-1", operation="START"),
            entry(4, Kind.HELD, "b", "i-2", reason="storm"),
            entry(5, Kind.WOULD, "d", "i-3", operation="REBOOT"),
            entry(6, Kind.OVER, "a", "i-1", lasted_s=60.0),
            entry(7, Kind.GONE, "d"),
            entry(8, Kind.WISH, "e", wish="SHUTOFF"),
            entry(9, Kind.AWAY),
            entry(10, Kind.BACK, lasted_s=12.0),
            entry(11, Kind.HELD, "f", "i-4", reason="storm"),
            # Stopped by its user meanwhile: it is over, and did not get well.
            entry(12, Kind.LEFT, "f", "i-4", lasted_s=30.0),
        ]
    )
    assert (found.failures, found.open) == (4, 1)
    assert found.would == {"START": 1, "REBOOT": 1}
    assert found.held == {"storm": 2}
    assert (found.over, found.wishes, found.away_s) == ([60.0], 1, 12.0)
    text = "\n".join(report.lines("prod", found, report.Now(groups={"shop": 4}, health={})))
    assert "failures  4, of which 1 are not over" in text
    assert "unseen    hosts" in text


def looked(outcome: str, health: Health = Health.UNHEALTHY, **more: object) -> NodeMemory:
    """Return the memory of a node after one look."""
    last = observation(outcome, **more)  # type: ignore[arg-type]
    return memory(health=health, tracks={STATUS: Track(last=last)})


@pytest.mark.parametrize(
    ("word", "wished"),
    [
        pytest.param("SHUTOFF", "SHUTOFF", id="stopped"),
        pytest.param("", "down", id="without-a-word"),
        pytest.param("gone", "", id="deleted"),
        pytest.param("DELETED", "", id="deleted-and-shown"),
    ],
)
def test_a_server_that_somebody_deleted_is_let_go_of_and_no_wish_beside(
    word: str, wished: str
) -> None:
    found = wish_of(looked("pass", Health.HEALTHY, code="EV-OWN-WILL", backend_status=word))
    assert (found.word if found else "") == wished


def test_what_a_look_that_failed_said_outlives_one_that_came_to_nothing() -> None:
    off = looked("fail", hint=Hint(event="POWER_OFF", state="SHUTOFF"))
    ident = off.node_id
    first = as_failed([{ident: off}], {})
    assert first == {ident: off}
    for unclear in (looked("unknown"), resettle(off), looked("unknown", Health.UNKNOWN)):
        assert as_failed([{ident: unclear}], first) == first
    paused = looked("fail", hint=Hint(event="PAUSE", state="PAUSED"))
    assert as_failed([{ident: paused}], first) == {ident: paused}
    assert as_failed([{ident: looked("pass", Health.HEALTHY)}], first) == {}


def test_a_state_is_a_file_of_its_own_for_each_cloud() -> None:
    assert str(default("a/b c", {"XDG_STATE_HOME": "/state"})) == "/state/yaffle/watch-a_b_c.db"
    assert default("x", {}).name == "watch-x.db"


def test_what_is_no_line_of_the_watch_is_not_among_the_lines_that_a_program_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    aside("yaffle: the disk is full", as_json=True)
    assert capsys.readouterr() == ("", "yaffle: the disk is full\n")
    aside("yaffle: the disk is full", as_json=False)
    assert capsys.readouterr() == ("yaffle: the disk is full\n", "")
