"""Which addresses may be spoken to: no spelling of the metadata service gets through."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path

import pytest

from yaffle.core.addresses import METADATA, AddressRules, refusal

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


def nat64(prefix: str, bits: int, v4: int) -> ipaddress.IPv6Address:
    """Return RFC 6052's address: the four octets from `bits` on, leaving out octet 8."""
    octets = bytearray(ipaddress.IPv6Address(prefix).packed)
    places = [i for i in range(bits // 8, 16) if i != 8][:4]
    for place, octet in zip(places, v4.to_bytes(4, "big"), strict=True):
        octets[place] = octet
    return ipaddress.IPv6Address(bytes(octets))


V6 = ipaddress.IPv6Address
SPELLINGS: dict[str, Callable[[int], ipaddress.IPv6Address]] = {
    "mapped": lambda v4: V6(0xFFFF << 32 | v4),
    "compatible": V6,
    "translated": lambda v4: V6(0xFFFF << 48 | v4),
    "nat64": lambda v4: nat64("64:ff9b::", 96, v4),
    "local nat64 /48": lambda v4: nat64("64:ff9b:1::", 48, v4),
    "local nat64 /48, a suffix": lambda v4: nat64("64:ff9b:1::5", 48, v4),
    "local nat64 /56": lambda v4: nat64("64:ff9b:1:700::", 56, v4),
    "local nat64 /64": lambda v4: nat64("64:ff9b:1:7::", 64, v4),
    "local nat64 /96": lambda v4: nat64("64:ff9b:1:7::", 96, v4),
    "6to4": lambda v4: V6(0x2002 << 112 | v4 << 80 | 1),
    "teredo, its server": lambda v4: V6(0x20010000 << 96 | v4 << 64 | 0x3FFFF00FF),
    "teredo, its client": lambda v4: V6(0x20010000 << 96 | 0xC0000201 << 64 | v4 ^ 0xFFFFFFFF),
    "isatap": lambda v4: V6(0x20010DB8 << 96 | 0x5EFE << 32 | v4),
    "isatap, universal": lambda v4: V6(0x20010DB8 << 96 | 0x02005EFE << 32 | v4),
}


@pytest.mark.parametrize("address", METADATA)
def test_no_metadata_address_is_reached_by_default(address: str) -> None:
    assert refusal(DEFAULT, address)


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("address", [a for a in METADATA if ":" not in a])
def test_no_other_spelling_reaches_a_metadata_service(
    address: str, spelled: Callable[[int], ipaddress.IPv6Address]
) -> None:
    assert refusal(DEFAULT, str(spelled(int(ipaddress.IPv4Address(address)))))


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_other_addresses_are_allowed_in_every_spelling(
    spelled: Callable[[int], ipaddress.IPv6Address],
) -> None:
    assert refusal(DEFAULT, str(spelled(int(ipaddress.IPv4Address("10.0.0.5"))))) is None


def test_what_only_carries_an_allowed_address_is_not_allowed() -> None:
    rules = AddressRules(allow=networks("10.0.0.0/8"))
    inner = int(ipaddress.IPv4Address("10.0.0.5"))
    allowed = {
        name for name, spell in SPELLINGS.items() if refusal(rules, str(spell(inner))) is None
    }
    assert allowed == {"mapped", "nat64"}


def test_the_page_shows_the_table() -> None:
    page = (Path(__file__).resolve().parents[2] / "SECURITY.md").read_text()
    assert [a for a in METADATA if f"`{a}`" not in page] == []
