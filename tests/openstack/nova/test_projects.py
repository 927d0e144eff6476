"""One Yaffle for two projects: each is healed by its own user's leave, and not at all without it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from lab.openstack import Credentials
from tests.acceptance.rig import Server, serving
from tests.functional.cli.support import run_here
from tests.openstack.cloud import Cloud
from tests.openstack.people import (
    HEAL_S,
    Person,
    acts,
    entered,
    handed_over,
    nobody,
    settings,
    taken_back,
    trusts_of,
)
from tests.waiting import wait_for

from yaffle.engine.runtime.clock import SystemClock


@pytest.fixture
def two(cloud: Cloud) -> Iterator[tuple[Credentials, Credentials]]:
    """The test's own project, and another one."""
    other = cloud.lab.project()
    try:
        yield cloud.credentials, other
    finally:
        cloud.lab.remove_project(other)


def refused_a_while(server: Server) -> None:
    """Leave written down what an engine writes whose trust is refused, as of one who is disabled."""
    path = server.database.removeprefix("sqlite:///")
    # Just now: it is not tried again for a minute.
    refused = "UPDATE credentials SET refused_us = ?, refused_why = '' WHERE kind = 'trust'"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(refused, (SystemClock().now_us(),))


def test_each_project_is_healed_by_its_own_users_leave(
    cloud: Cloud, two: tuple[Credentials, Credentials], tmp_path: Path
) -> None:
    lab, (ann, bob) = cloud.lab, two
    both = fine, lost = Person(who=ann), Person(who=bob)
    # Ann trusts us by her first change; Bob has handed something over before his.
    ident, secret = handed_over(bob)
    with nobody(lab) as service:
        config = str(settings(lab, service, tmp_path))
        flags = ("--config", config)
        with serving(tmp_path, *flags, local_process=False) as server, entered(server, *both):
            where = {"YAFFLE_CONFIG": config, "YAFFLE_STATE_DIR": str(server.state)}
            added = run_here("credential", "add", "--id", ident, env=where, given=secret)
            assert added.code == 0, added.err
            for one in both:
                one.begin()
            for one in both:
                one.watched()
            assert (len(trusts_of(ann)), trusts_of(bob)) == (1, [])
            for one in both:
                one.until("healthy")
                lab.guest(one.server).off()
            # What ends all her tokens ends nothing of what she has let us do.
            same = {"user": {"password": ann.password}}
            lab.api.call("PATCH", "identity", f"/users/{ann.user_id}", same)
            with entered(server, fine):
                for one in both:
                    one.healed(1)
                    mine = (one.who.user_id, one.who.project_id)
                    assert acts(lab, one.server) == [("start", *mine), ("create", *mine)]
        taken_back(bob, ident)
        (before,) = [trust["id"] for trust in trusts_of(ann)]
        refused_a_while(server)
        # An engine that starts anew: Nova goes on believing for minutes in a token that it knows.
        with serving(tmp_path, *flags, local_process=False) as server, entered(server, *both):
            fine.api.patch(f"nodes/{fine.node['id']}", {"node": {"role": "mine"}})
            assert {trust["id"] for trust in trusts_of(ann)} - {before}
            refused = f"Keystone refuses the application credential {ident}"
            wait_for(lambda: refused in lost.why(), within_s=HEAL_S, every_s=0.2)
            # Only the second look in vain makes it so.
            lost.until("unknown")
            for one in both:
                lab.guest(one.server).off()
            fine.healed(2)
            assert lost.node["health"] == "unknown"
            assert len(acts(lab, lost.server)) == 2, "nothing more was done"
            mine = (ann.user_id, ann.project_id)
            assert acts(lab, fine.server)[0] == ("start", *mine)
            # Bob's next change lets us act again, by a trust this time.
            lost.api.patch(f"nodes/{lost.node['id']}", {"node": {"role": "back"}})
            lost.healed(2)
            assert len(trusts_of(bob)) == 1
            assert acts(lab, lost.server)[0] == ("start", bob.user_id, bob.project_id)
            # And Ann trusts us once, not once more for each time that she had to do it anew.
            wait_for(lambda: len(trusts_of(ann)) == 1, within_s=HEAL_S, every_s=0.5)
            assert before not in {trust["id"] for trust in trusts_of(ann)}
