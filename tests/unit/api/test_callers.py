"""Who asks, behind proxies that are trusted and behind those that are not."""

from __future__ import annotations

import pytest

from yaffle.api.http.client_shares import Proxies, share_of

PROXIES = Proxies(("127.0.0.1", "10.0.0.0/8", "fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "caller"),
    [
        pytest.param("192.0.2.1", ["198.51.100.7"], "192.0.2.1", id="nobody-we-trust"),
        pytest.param("127.0.0.1", [], "127.0.0.1", id="the-proxy-itself"),
        pytest.param("127.0.0.1", ["198.51.100.7"], "198.51.100.7", id="one-proxy"),
        pytest.param("127.0.0.1", ["8.8.8.8", "198.51.100.7"], "198.51.100.7", id="own-word"),
        pytest.param("127.0.0.1", ["8.8.8.8, 198.51.100.7"], "198.51.100.7", id="in-one-line"),
        pytest.param("10.1.1.1", ["198.51.100.7, 10.2.2.2"], "198.51.100.7", id="two-proxies"),
        pytest.param("127.0.0.1", ["x" * 60_000], "127.0.0.1", id="no-address"),
        pytest.param("127.0.0.1", ["198.51.100.7, _hidden"], "127.0.0.1", id="stops-there"),
        pytest.param("fd00::1", ["2001:db8::7"], "2001:db8::7", id="v6"),
        pytest.param("::ffff:10.1.1.1", ["198.51.100.7"], "198.51.100.7", id="v4-in-v6"),
    ],
)
def test_who_asks(peer: str, forwarded: list[str], caller: str) -> None:
    assert PROXIES.caller(peer, forwarded) == caller


@pytest.mark.parametrize(
    ("address", "share"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_whose_share_it_is(address: str, share: str) -> None:
    assert share_of(address) == share
