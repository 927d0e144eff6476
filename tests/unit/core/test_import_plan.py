"""What becomes of each object of a Senlin, case by case; and twice is the same as once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from yaffle.core.imports.dump import ORDER, shaped
from yaffle.core.imports.items import Kind, PolicyItem, ProfileItem, Unreadable, ids, read
from yaffle.core.imports.plan import Planner
from yaffle.core.imports.planned import Document, Outcome, Planned, Present
from yaffle.errors import Forbidden, InvalidSpec

NOW = 1_800_000_000_000_000
P, Q, C, D, N, M, B, R = (f"{n}0000000-0000-4000-8000-000000000000" for n in range(1, 9))
SERVER = "os.nova.server-1.0"
PROJECT = "33e071d38fcc4fd099e0e09cedfe58f9"


class Judge:
    """Knows servers and health policies, as an installation with that one driver does."""

    def profile(self, item: ProfileItem) -> Mapping[str, object]:
        if item.type == "yaffle.local.process-1.0":
            raise Forbidden("local processes are off")
        if item.type != SERVER:
            raise InvalidSpec(f"type: profile type {item.type!r} is not installed")
        return {"size": 1, **item.properties}

    def policy(self, item: PolicyItem) -> Document:
        family = item.type.rpartition("-")[0]
        if family not in {"senlin.policy.health", "senlin.policy.scaling"}:
            raise InvalidSpec(f"type: policy type {item.type!r} does not exist here")
        return Document(type=item.type, spec=item.given, warnings=("spelt badly",))

    def is_singleton(self, family: str) -> bool:
        return family != "senlin.policy.scaling"

    def binding(
        self, policy_type: str, spec: Mapping[str, object], profile_type: str
    ) -> Sequence[str]:
        return ("LB_STATUS_POLLING is not available here",) if spec.get("unfit") else ()


def profile(**more: object) -> dict[str, object]:
    kind, version = str(more.get("type", SERVER)).rsplit("-", 1)
    spec = {"type": kind, "version": version, "properties": {"flavor": "m1"}}
    return {"id": P, "name": "p", "type": SERVER, "spec": spec, "project": PROJECT} | more


def policy(**more: object) -> dict[str, object]:
    kind = "senlin.policy.health-1.2"
    return {"id": Q, "name": "q", "type": kind, "spec": {"properties": {}}} | more


def cluster(**more: object) -> dict[str, object]:
    return {
        "id": C, "name": "web", "profile_id": P, "min_size": 0, "max_size": -1,
        "desired_capacity": 2, "status": "ACTIVE", "status_reason": "fine", "timeout": 600,
        "metadata": {"a": "b"}, "config": {}, "init_at": "2026-11-20T08:42:51Z", "project": PROJECT,
        "created_at": "2026-11-20T08:43:52Z", "updated_at": None, "user": "u", "domain": None,
    } | more  # fmt: skip


def node(**more: object) -> dict[str, object]:
    return {
        "id": N, "name": "web-1", "cluster_id": C, "profile_id": P, "physical_id": "srv-1",
        "index": 3, "role": "", "status": "ACTIVE", "status_reason": "", "tainted": False,
        "metadata": {}, "init_at": "2026-11-20T08:42:51Z", "created_at": "2026-11-20T08:43:00Z",
    } | more  # fmt: skip


def binding(**more: object) -> dict[str, object]:
    return {"id": B, "cluster_id": C, "policy_id": Q, "enabled": True, "priority": 600} | more


def receiver(**more: object) -> dict[str, object]:
    return {
        "id": R, "name": "out", "type": "webhook", "cluster_id": C, "action": "CLUSTER_SCALE_OUT",
        "params": {"count": 1}, "project": "another",
    } | more  # fmt: skip


def document(**lists: list[dict[str, object]]) -> dict[str, list[dict[str, object]]]:
    whole = {
        "profiles": [profile()],
        "policies": [policy()],
        "clusters": [cluster()],
        "nodes": [node()],
        "cluster_policies": [binding()],
        "receivers": [receiver()],
    }
    return {**whole, **lists}


def planned(
    lists: Mapping[str, Sequence[Mapping[str, object]]],
    present: Present | None = None,
    project: str | None = None,
) -> dict[str, Planned]:
    planner = Planner(present or Present(), Judge(), now_us=NOW, project=project)
    found: dict[str, Planned] = {}
    for name in ORDER:
        kind = Kind(name)
        for row in lists[name]:
            result = planner.plan(kind, read(kind, row))
            found[result.id] = result
    return found


def here(found: Mapping[str, Planned]) -> Present:
    """Return what is here once a plan has been carried out."""
    created = [p for p in found.values() if p.outcome is Outcome.CREATE]
    return Present(
        rows={(p.kind, p.id): p.row for p in created},
        holders={
            str(p.row["physical_id"]): (p.id,)
            for p in created
            if p.kind is Kind.NODE and p.row["physical_id"]
        },
        bound={
            (str(p.row["cluster_id"]), str(p.row["policy_id"])): p.row
            for p in created
            if p.kind is Kind.BINDING
        },
    )


def test_everything_is_kept() -> None:
    found = planned(document())
    assert {p.outcome for p in found.values()} == {Outcome.CREATE}
    assert found[C].row == {
        "id": C, "name": "web", "project": PROJECT, "user": "u", "domain": "", "profile_id": P,
        "desired_capacity": 2, "min_size": 0, "max_size": -1, "next_index": 1, "timeout_s": 600,
        "status": "ACTIVE", "status_reason": "fine", "metadata": {"a": "b"}, "config": {},
        "created_us": 1_795_164_171_000_000, "init_us": 1_795_164_171_000_000,
        "made_us": 1_795_164_232_000_000, "updated_us": None,
    }  # fmt: skip
    kept = {key: found[N].row[key] for key in ("physical_id", "index", "cluster_id", "status")}
    assert kept == {"physical_id": "srv-1", "index": 3, "cluster_id": C, "status": "ACTIVE"}
    assert found[N].row["grace_us"] == NOW
    assert found[P].row["spec"] == {"size": 1, "flavor": "m1"}
    assert found[P].row["given"] == profile()["spec"]
    assert found[Q].notes == ("warning: spelt badly",)
    assert found[B].name == "web: q"
    assert found[R].row["project"] == PROJECT, "it acts for its cluster's project"


def test_twice_is_the_same_as_once() -> None:
    first = planned(document())
    second = planned(document(), here(first))
    assert {p.outcome for p in second.values()} == {Outcome.PRESENT}
    assert all(not p.row for p in second.values())


def test_one_project_may_have_it_all() -> None:
    found = planned(document(), project="default")
    owned = [p.row["project"] for p in found.values() if p.kind is not Kind.BINDING]
    assert owned == ["default"] * 5


REFUSED: list[Any] = [
    pytest.param({"profiles": [profile(type="os.heat.stack-1.0")]}, P, "not installed", id="type"),
    pytest.param(
        {"profiles": [profile(type="yaffle.local.process-1.0")]}, P, "are off", id="forbidden"
    ),
    pytest.param({"profiles": [profile(spec="x")]}, P, "spec: 'x' is no object", id="spec"),
    pytest.param(
        {"policies": [policy(type="senlin.policy.affinity-1.0")]}, Q, "does not exist", id="policy"
    ),
    pytest.param({"policies": [policy(name="a/b")]}, Q, "name: 'a/b'", id="name"),
    pytest.param({"profiles": []}, C, "its profile", id="cluster-without-profile"),
    pytest.param({"clusters": []}, N, "its cluster", id="node-without-cluster"),
    pytest.param({"clusters": [cluster(status="DELETING")]}, C, "being deleted", id="deleting"),
    pytest.param({"nodes": [node(status="DELETING")]}, N, "bring it back", id="deleting-node"),
    pytest.param({"clusters": [cluster(min_size="many")]}, C, "min_size: 'many'", id="number"),
    pytest.param({"nodes": [node(), node(id=M)]}, M, f"node {N} stands for", id="one-server-twice"),
    pytest.param({"nodes": [node(tainted="maybe")]}, N, "tainted: 'maybe'", id="flag"),
    pytest.param({"nodes": [node(created_at="soon")]}, N, "created_at: 'soon'", id="time"),
    pytest.param({"policies": []}, B, "its policy", id="binding-without-policy"),
    pytest.param(
        {"policies": [policy(spec={"unfit": True})]}, B, "LB_STATUS_POLLING", id="binding-unfit"
    ),
    pytest.param({"receivers": [receiver(type="message")]}, R, "only webhooks", id="message"),
    pytest.param({"receivers": [receiver(action="CLUSTER_CREATE")]}, R, "CLUSTER_CREATE", id="act"),
    pytest.param({"receivers": [receiver(params={"count": 0})]}, R, "params.count", id="params"),
    pytest.param(
        {"profiles": [profile(spec={"properties": ["flavor"]})]},
        P,
        "spec.properties: [",
        id="props",
    ),
    pytest.param({"nodes": [node(role=["web"])]}, N, "role: ['web'] is no text", id="text"),
    pytest.param({"nodes": [node(id="../x")]}, "../x", "id: '../x' is no id", id="id"),
]


@pytest.mark.parametrize(("lists", "ident", "why"), REFUSED)
def test_what_cannot_be_is_refused_and_why(
    lists: dict[str, list[dict[str, object]]], ident: str, why: str
) -> None:
    found = planned(document(**lists))[ident]
    assert found.outcome is Outcome.REFUSE
    assert why in " ".join(found.reasons)
    assert not found.row


def test_what_depends_on_something_refused_is_refused_too() -> None:
    found = planned(document(profiles=[profile(type="os.heat.stack-1.0")]))
    outcomes = {ident: p.outcome for ident, p in found.items()}
    assert outcomes == {
        P: Outcome.REFUSE, Q: Outcome.CREATE, C: Outcome.REFUSE, N: Outcome.REFUSE,
        B: Outcome.REFUSE, R: Outcome.REFUSE,
    }  # fmt: skip


@pytest.mark.parametrize(
    "status", ["INIT", "CREATING", "UPDATING", "RECOVERING", "OPERATING", "", "NEW-WORD"]
)
def test_what_was_under_way_is_an_error_until_somebody_looks(status: str) -> None:
    found = planned(document(nodes=[node(status=status)], clusters=[cluster(status=status)]))
    for ident in (C, N):
        assert found[ident].row["status"] == "ERROR"
        assert "when it was imported" in str(found[ident].row["status_reason"])
        assert any("becomes ERROR" in note for note in found[ident].notes)


def test_a_second_health_policy_is_refused_and_another_type_is_not() -> None:
    second = policy(id=D, type="senlin.policy.health-1.0")
    out, in_ = (policy(id=i, type="senlin.policy.scaling-1.0") for i in (M, N))
    bound = [binding(id=f"b{n}", policy_id=i) for n, i in enumerate((Q, D, M, N))]
    found = planned(document(policies=[policy(), second, out, in_], cluster_policies=bound))
    assert [found[f"b{n}"].outcome for n in range(4)] == [
        Outcome.CREATE, Outcome.REFUSE, Outcome.CREATE, Outcome.CREATE,
    ]  # fmt: skip


def test_members_have_their_cluster_s_type() -> None:
    alien = profile(id=D, type="os.heat.stack-1.0")
    stacks = Present(rows={(Kind.PROFILE, D): {"id": D, "type": "os.heat.stack-1.0"}})
    found = planned(document(profiles=[profile(), alien], nodes=[node(profile_id=D)]), stacks)
    assert found[N].outcome is Outcome.REFUSE
    assert "its cluster's" in found[N].reasons[0]


def test_a_node_that_is_healed_already_is_never_adopted_twice() -> None:
    present = Present(holders={"srv-1": (M,)})
    assert planned(document(), present)[N].reasons == (f"node {M} stands for srv-1 already",)


@pytest.mark.parametrize(
    ("lists", "ident", "why"),
    [
        ({"clusters": [cluster(desired_capacity=5)]}, C, "desired_capacity is 2 here, 5 there"),
        ({"nodes": [node(physical_id="srv-9")]}, N, "physical_id is srv-1 here, srv-9 there"),
        ({"cluster_policies": [binding(enabled=False)]}, B, "enabled is True here, False there"),
        ({"profiles": [profile(type="os.heat.stack-1.0")]}, P, "not installed"),
        ({"receivers": [receiver(params={"count": 9})]}, R, "params is another here"),
    ],
)
def test_what_is_here_is_never_changed(
    lists: dict[str, list[dict[str, object]]], ident: str, why: str
) -> None:
    found = planned(document(**lists), here(planned(document())))[ident]
    assert found.outcome is Outcome.DIFFERENT
    assert why in " ".join(found.reasons)
    assert not found.row


def test_life_that_goes_on_is_no_difference() -> None:
    lists = document(nodes=[node(status="WARNING", metadata={"x": "y"}, updated_at="2027-01-01")])
    assert planned(lists, here(planned(document())))[N].outcome is Outcome.PRESENT


def test_a_node_of_no_cluster_has_no_index() -> None:
    found = planned(document(nodes=[node(cluster_id=None)]))[N]
    assert found.outcome is Outcome.CREATE
    assert (found.row["cluster_id"], found.row["index"]) == (None, -1)


def test_what_was_never_said_to_be_tainted_is_not() -> None:
    assert planned(document(nodes=[node(tainted=None)]))[N].row["tainted"] is False


def test_a_type_that_stands_in_the_spec_alone_is_found_there() -> None:
    found = planned(document(profiles=[profile() | {"type": None}]))
    assert found[P].row["type"] == SERVER


def test_a_profile_without_type_and_spec_is_refused() -> None:
    found = planned(document(profiles=[profile() | {"type": None, "spec": None}]))[P]
    assert "profile type '' is not installed" in found.reasons[0]


@pytest.mark.parametrize(
    ("lists", "ident", "note"),
    [
        pytest.param(
            {"clusters": [cluster(min_size=3, max_size=5)]},
            C,
            "desired capacity 2 is not within 3 and 5; resize it",
            id="capacity",
        ),
        pytest.param(
            {"clusters": [cluster(dependents={"profiles": [P]})]},
            C,
            "its dependents are not kept",
            id="dependents-of-a-cluster",
        ),
        pytest.param(
            {"nodes": [node(dependents={"nodes": [M]})]},
            N,
            "its dependents are not kept",
            id="dependents-of-a-node",
        ),
        pytest.param(
            {"nodes": [node(physical_id=None)]}, N, "nothing stands behind it", id="nothing-behind"
        ),
    ],
)
def test_what_is_not_as_it_was_is_told(
    lists: dict[str, list[dict[str, object]]], ident: str, note: str
) -> None:
    found = planned(document(**lists))[ident]
    assert found.outcome is Outcome.CREATE
    assert note in " ".join(found.notes)


def test_two_nodes_that_nothing_stands_behind_are_no_rivals() -> None:
    found = planned(document(nodes=[node(physical_id=""), node(id=M, physical_id="")]))
    assert {found[N].outcome, found[M].outcome} == {Outcome.CREATE}


def test_words_that_a_receiver_never_knew_are_left_out_and_told() -> None:
    found = planned(document(receivers=[receiver(params={"count": 2, "hello": 1})]))[R]
    assert (found.outcome, found.row["params"]) == (Outcome.CREATE, {"count": 2})
    assert "hello" in found.notes[0]


def test_a_table_dump_means_the_same_as_the_api() -> None:
    tables = shaped(
        {
            "profile": [
                profile(spec='{"type": "os.nova.server", "properties": {"flavor": "m1"}}')
                | {"meta_data": "{}", "context": "{}", "permission": ""}
            ],
            "policy": [policy(spec='{"properties": {}}') | {"cooldown": None, "level": 50}],
            "cluster": [
                {k: v for k, v in cluster().items() if k != "metadata"}
                | {"meta_data": '{"a": "b"}', "config": "", "desired_capacity": "2",
                   "init_at": "2026-11-20 08:42:51", "created_at": "2026-11-20 08:43:52.000000"}
            ],
            "node": [node(tainted=0, meta_data="{}")],
            "cluster_policy": [binding(enabled=1)],
            "receiver": [receiver(params='{"count": 1}', actor='{"trust_id": "t"}')],
            "action": [{"id": "x"}],
        }
    )  # fmt: skip
    found, wanted = planned(tables), planned(document())
    for ident in (C, N, B, R):
        assert found[ident].row == wanted[ident].row


def test_a_time_without_a_zone_is_utc_wherever_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = planned(document(clusters=[cluster(created_at="2026-11-20 08:43:52")]))[C]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.row["made_us"] == 1_795_164_232_000_000


def test_json_that_is_none_is_named() -> None:
    tables = shaped({"profile": [profile(spec="{broken")]})
    assert "spec: '{broken' is no object" in planned(tables)[P].reasons


@pytest.mark.parametrize(
    ("dump", "why"),
    [
        pytest.param([], "no JSON object", id="list"),
        pytest.param({"profiles": {}}, "profiles: it is no list", id="no-list"),
        pytest.param({"nodes": [1]}, "nodes: it is no list of objects", id="no-objects"),
        pytest.param({"knots": []}, "knots: unknown", id="misspelt"),
    ],
)
def test_a_dump_of_no_known_shape_is_refused(dump: object, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        shaped(dump)


def test_what_has_to_be_looked_up_is_named() -> None:
    items = [read(Kind(name), row) for name, rows in document().items() for row in rows]
    assert ids([i for i in items if not isinstance(i, Unreadable)]) == {P, Q, C, N, B, R}


@pytest.mark.parametrize("make", [profile, policy, cluster, node])
def test_a_name_that_would_be_an_option_is_not_imported(make: Any) -> None:
    kind = {
        profile: Kind.PROFILE, policy: Kind.POLICY, cluster: Kind.CLUSTER, node: Kind.NODE,
    }[make]  # fmt: skip
    found = read(kind, make(name="--force"))
    assert isinstance(found, Unreadable)
    assert "is no usable name" in str(found)
    assert not isinstance(read(kind, make(name="a--force")), Unreadable)
