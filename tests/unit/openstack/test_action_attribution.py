"""Who brought a server into its state: a user, ourselves, nobody, or we cannot know."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.status.action_attribution import traced, unasked
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark
from yaffle.drivers.profiles.nova_server.tracking.verbs import CURES
from yaffle.integrations.openstack.servers.action_attribution import BESIDE, EXPLAINS, untold
from yaffle.integrations.openstack.servers.documents import Action
from yaffle.integrations.openstack.servers.status_mapping import ABOUT_TO_STOP, ROWS
from yaffle.model.operations import Actor

ALICE, US = "alice", "yaffle"


def acts(*told: tuple[str, str | None]) -> list[Action]:
    """Newest first; ids count from the oldest."""
    total = len(told)
    return [
        Action(action=name, user_id=user, request_id=f"req-{total - place}")
        for place, (name, user) in enumerate(told)
    ]


def server(status: str, *, kind: str = "", before: str = "") -> Server:
    mark = Mark(operation_id="o", kind=kind, at_us=1, before=before)
    return Server(id="s", status=status, metadata=mark.written() if kind else {})


MADE = ("create", ALICE)


@pytest.mark.parametrize(
    ("seen", "listed", "who"),
    [
        pytest.param(server("SHUTOFF"), acts(("stop", ALICE), MADE), Actor.USER, id="a user"),
        pytest.param(server("SHUTOFF"), acts(("stop", None), MADE), Actor.NOBODY, id="nova"),
        pytest.param(server("SHUTOFF"), acts(("start", ALICE), MADE), Actor.NOBODY, id="itself"),
        pytest.param(
            server("SHUTOFF"),
            acts(("lock", ALICE), ("stop", ALICE), MADE),
            Actor.USER,
            id="stopped, then locked",
        ),
        pytest.param(
            server("SHUTOFF"),
            acts(("confirmResize", US), ("resize", US), ("stop", ALICE), MADE),
            Actor.USER,
            id="stopped, then resized by us",
        ),
        pytest.param(
            server("SHUTOFF"),
            acts(("confirmResize", US), ("resize", US), ("start", ALICE), MADE),
            Actor.NOBODY,
            id="resized, then off by itself",
        ),
        pytest.param(
            server("SHUTOFF"),
            acts(("stop", None), ("start", ALICE), ("stop", ALICE), MADE),
            Actor.NOBODY,
            id="stopped, started, then off by itself",
        ),
        pytest.param(
            server("SHUTOFF", kind="STOP", before="req-1"),
            acts(("stop", US), MADE),
            Actor.OURSELVES,
            id="our own stop",
        ),
        pytest.param(
            server("SHUTOFF", kind="REBOOT", before="req-1"),
            acts(("stop", US), ("reboot", US), MADE),
            Actor.USER,
            id="a person with our credentials",
        ),
        pytest.param(server("PAUSED"), acts(("pause", ALICE), MADE), Actor.USER, id="paused"),
        pytest.param(server("ERROR"), acts(("stop", ALICE), MADE), Actor.NOBODY, id="an error"),
        pytest.param(server("ACTIVE"), acts(MADE), Actor.NOBODY, id="wiped"),
        pytest.param(server("SHUTOFF"), acts(("lock", ALICE)), Actor.UNKNOWN, id="not all of it"),
        pytest.param(server("ACTIVE"), acts(("start", ALICE)), Actor.NOBODY, id="off by itself"),
        pytest.param(None, acts(("delete", ALICE), MADE), Actor.USER, id="deleted by a user"),
        pytest.param(None, acts(("delete", US), MADE), Actor.UNKNOWN, id="deleted as us"),
        pytest.param(None, acts(MADE), Actor.NOBODY, id="gone without a trace"),
        pytest.param(server("SHUTOFF"), [], Actor.UNKNOWN, id="an empty record"),
    ],
)
def test_who_it_was(seen: Server | None, listed: list[Action], who: Actor) -> None:
    assert traced(seen, listed, us=US, sent=lambda _: False).actor is who


@pytest.mark.parametrize(
    ("seen", "keeps"),
    [
        pytest.param(server("SHUTOFF"), True, id="off"),
        pytest.param(server("SOFT_DELETED"), True, id="it can be restored"),
        pytest.param(server("SHELVED_OFFLOADED"), True, id="put away"),
        pytest.param(server("ERROR"), False, id="no request leads there"),
        pytest.param(replace(server("ACTIVE"), task_state="deleting"), False, id="being deleted"),
        pytest.param(None, False, id="deleted"),
    ],
)
def test_whether_whoever_wished_it_wants_to_have_it_again(seen: Server | None, keeps: bool) -> None:
    assert untold(seen, "why").keeps is keeps
    assert unasked("why").actor is Actor.UNASKED


def test_a_deletion_that_this_process_sent_is_our_own() -> None:
    listed = acts(("delete", US), MADE)
    assert traced(None, listed, us=US, sent=lambda i: i == "req-2").actor is Actor.OURSELVES


def test_every_state_with_a_cure_can_be_explained() -> None:
    # What Nova is about to stop only a guest itself brings about: a user's stop is one write.
    by_request = [row for row in ROWS if row.event in CURES and row.word != ABOUT_TO_STOP]
    assert {s for row in by_request for s in row.statuses} <= set(EXPLAINS)
    assert not BESIDE & set(EXPLAINS.values())
