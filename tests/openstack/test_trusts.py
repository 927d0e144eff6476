"""A trust in whose place there is a newer one is deleted with a token of its own, in a real Keystone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab.openstack import Credentials
from tests.functional.cli.support import wait_for
from tests.openstack.cloud import Cloud
from tests.openstack.people import asked, nobody, token_of, trusts_of

from yaffle.api.auth import Known
from yaffle.api.auth.keystone.trust_cleanup import by_itself
from yaffle.api.auth.keystone.trusts import left_unstored
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack import Cloud as Session
from yaffle.integrations.openstack import CloudsYaml
from yaffle.model.authz import RIGHTS, Principal, Role
from yaffle.model.credentials import CredentialKind
from yaffle.store.credentials import CredentialRow


@pytest.fixture
def service(cloud: Cloud) -> Iterator[Credentials]:
    """Who the service is: nobody in any project."""
    with nobody(cloud.lab) as who:
        yield who


@pytest.fixture
def session(service: Credentials, tmp_path: Path) -> Iterator[Session]:
    words = yaml.safe_load(service.clouds_yaml.read_text())
    words["clouds"][service.cloud]["auth"].pop("project_name", None)
    file = tmp_path / "clouds.yaml"
    file.write_text(yaml.safe_dump(words))
    found = Session(CloudsYaml(name=service.cloud, file=file), SystemClock(), threads=1)
    yield found
    found.close()


def trust(ann: Credentials, service: Credentials, **more: str) -> str:
    """Let Ann trust the service, and return the trust's id."""
    token = token_of(ann)
    body = {
        "trust": {
            "trustor_user_id": ann.user_id, "trustee_user_id": service.user_id,
            "project_id": ann.project_id, "impersonation": True, "allow_redelegation": False,
            "roles": [{"name": "member"}], **more,
        }
    }  # fmt: skip
    answer = asked(ann, "POST", "/OS-TRUST/trusts", body, token)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["trust"]["id"])


def row(session: Session, ann: Credentials, reference: str) -> CredentialRow:
    at = session.credentials
    assert isinstance(at, CloudsYaml)
    return CredentialRow(
        id="r", cloud=at.name, kind=CredentialKind.SUPERSEDED_TRUST, reference=reference,
        sealed="", key_id="", project=ann.project_id, user=ann.user_id, created_us=0,
        used_us=None, refused_us=None, refused_why="",
    )  # fmt: skip


def deleted(session: Session, ann: Credentials, reference: str) -> bool:
    """Try to; whoever has to wait for Keystone for too long is told so, and tries again."""
    return asyncio.run(by_itself(session, row(session, ann, reference), SystemClock())) == ""


def test_it_is_deleted_with_its_own_token_and_no_other_one_is(
    cloud: Cloud, service: Credentials, session: Session
) -> None:
    ann = cloud.credentials
    old, newest = trust(ann, service), trust(ann, service)
    wait_for(lambda: deleted(session, ann, old))
    assert [one["id"] for one in trusts_of(ann)] == [newest]


def test_keystone_keeps_the_mark_by_which_one_that_was_never_stored_is_found(
    cloud: Cloud, service: Credentials, session: Session
) -> None:
    ann = cloud.credentials
    left = trust(ann, service, yaffle="key 1")
    known = Known(
        who=Principal(user=ann.user_id, project=ann.project_id, rights=RIGHTS[Role.MEMBER]),
        token=token_of(ann),
    )

    def found(*marks: str) -> list[str]:
        return asyncio.run(session.call(lambda client: left_unstored(client, known, marks), 15.0))

    assert found("key 1") == [left]
    assert found("key 2") == []
    assert asked(ann, "DELETE", f"/OS-TRUST/trusts/{left}", token=token_of(ann)).status_code == 204


def test_one_that_is_gone_already_is_known_to_be(
    cloud: Cloud, service: Credentials, session: Session
) -> None:
    ann = cloud.credentials
    old = trust(ann, service)
    assert asked(ann, "DELETE", f"/OS-TRUST/trusts/{old}", token=token_of(ann)).status_code == 204
    wait_for(lambda: deleted(session, ann, old))


def test_while_keystone_gives_no_token_for_it_it_stays_and_the_reason_is_told(
    cloud: Cloud, service: Credentials, session: Session
) -> None:
    ann, lab = cloud.credentials, cloud.lab
    old = trust(ann, service)
    lab.api.call("PATCH", "identity", f"/users/{ann.user_id}", {"user": {"enabled": False}})
    try:
        why = asyncio.run(by_itself(session, row(session, ann, old), SystemClock()))
    finally:
        lab.api.call("PATCH", "identity", f"/users/{ann.user_id}", {"user": {"enabled": True}})
    assert why
    # Keystone takes no token that was issued in the second in which it revoked those before it.
    wait_for(lambda: deleted(session, ann, old), every_s=0.5)
    assert trusts_of(ann) == []
