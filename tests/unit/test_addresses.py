"""Which addresses may be spoken to: no spelling of the metadata service gets through."""

from __future__ import annotations

import ipaddress

import pytest

from yaffle.core.addresses import AddressRules, refusal

DEFAULT = AddressRules()


def networks(*texts: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "ff02::1",
        "::ffff:0.0.0.0",
    ],
)
def test_refused_by_default(address: str) -> None:
    assert refusal(DEFAULT, address)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.0.2.1", "::1", "2001:db8::1"])
def test_allowed_by_default(address: str) -> None:
    assert refusal(DEFAULT, address) is None


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "1.2.3.4.5", "0x7f000001", "[::1]"])
def test_only_literals(text: str) -> None:
    why = refusal(DEFAULT, text)
    assert why is not None
    assert "not an IP address" in why


def test_allow_list_excludes_the_rest() -> None:
    rules = AddressRules(allow=networks("10.0.0.0/8", "2001:db8::/32"))
    assert refusal(rules, "10.1.2.3") is None
    assert refusal(rules, "::ffff:10.1.2.3") is None
    assert refusal(rules, "2001:db8::5") is None
    assert "none of the allowed" in (refusal(rules, "127.0.0.1") or "")


def test_deny_wins_over_allow() -> None:
    rules = AddressRules(allow=networks("10.0.0.0/8"), deny=networks("10.9.0.0/16"))
    assert refusal(rules, "10.1.0.1") is None
    assert "10.9.0.0/16" in (refusal(rules, "10.9.0.1") or "")


def test_what_is_never_an_address_of_a_node_cannot_be_allowed() -> None:
    rules = AddressRules(allow=networks("0.0.0.0/0", "::/0"), deny=())
    assert refusal(rules, "169.254.169.254") is None  # an operator may lift the default
    assert refusal(rules, "0.0.0.0")
    assert refusal(rules, "224.0.0.1")
    assert refusal(rules, "::")


@pytest.mark.parametrize(
    "spelling",
    [
        pytest.param("::ffff:169.254.169.254", id="mapped"),
        pytest.param("64:ff9b::a9fe:a9fe", id="nat64"),
        pytest.param("2002:a9fe:a9fe::1", id="6to4"),
    ],
)
def test_no_other_spelling_reaches_the_metadata_service(spelling: str) -> None:
    assert refusal(AddressRules(), spelling) is not None
