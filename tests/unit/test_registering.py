"""What has to be done to a catalog: make what is missing, correct what is wrong, touch nothing else."""

from __future__ import annotations

import pytest

from yaffle.integrations.openstack.catalog_registration import Endpoint, Entry, Step, plan, urls

URL = "https://yaffle.example.org:8777"


def endpoint(interface: str, url: str = URL, region: str = "R", ident: str = "e") -> Endpoint:
    return Endpoint(id=ident, interface=interface, region=region, url=url)


EVERYTHING = [endpoint("public"), endpoint("internal"), endpoint("admin")]


@pytest.mark.parametrize(
    ("present", "steps"),
    [
        ([], "created created created"),
        (EVERYTHING, "kept kept kept"),
        (EVERYTHING[:1], "kept created created"),
        ([endpoint("public", URL + "/"), *EVERYTHING[1:]], "kept kept kept"),
        ([endpoint("public", "http://old"), *EVERYTHING[1:]], "changed kept kept"),
        ([endpoint("public", "http://other", region="S")], "created created created"),
    ],
    ids=["nothing", "all", "one", "slash", "wrong", "elsewhere"],
)
def test_the_catalog_is_made_to_say_it(present: list[Endpoint], steps: str) -> None:
    changes = plan(Entry(urls=urls(URL), region="R"), present)
    assert " ".join(change.step for change in changes) == steps
    assert [change.endpoint.interface for change in changes] == ["public", "internal", "admin"]
    for change in changes:
        assert change.endpoint.region == "R"
        if change.step is not Step.KEPT:
            assert change.endpoint.url == URL
        # What is changed is found by its id; what is new has none.
        assert bool(change.endpoint.id) == (change.step is not Step.CREATED)


def test_what_was_there_is_told() -> None:
    (public, *_) = plan(Entry(urls=urls(URL), region="R"), [endpoint("public", "http://old")])
    assert (public.step, public.before) == (Step.CHANGED, "http://old")


def test_masakaris_clients_find_the_same_server() -> None:
    entry = Entry(urls=urls(URL), region="R").of_instance_ha()
    assert (entry.type, entry.region) == ("instance-ha", "R")
    assert set(entry.urls.values()) == {f"{URL}/instance-ha/v1"}


def test_services_and_administrators_may_have_another_way() -> None:
    found = urls(URL, internal="http://10.0.0.1:8777")
    assert dict(found) == {"public": URL, "internal": "http://10.0.0.1:8777", "admin": URL}
