"""Which change to a server's networks is the next one, by what the profiles say and what it has."""

from __future__ import annotations

from yaffle.drivers.profiles.nova_server.api.documents import FixedIp
from yaffle.drivers.profiles.nova_server.api.server_parts import Interface
from yaffle.drivers.profiles.nova_server.operations.network_update import Change, Wish, next_change

NETWORK, PORT = Wish(network="n-a"), Wish(port="p-mine")
FIXED = Wish(network="n-a", address="10.0.0.9")


def interface(port: str, network: str = "n-a", address: str = "10.0.0.7") -> Interface:
    return Interface(port_id=port, net_id=network, fixed_ips=[FixedIp(ip_address=address)])


def test_a_port_that_is_named_no_more_is_let_go_of_also_in_a_network_that_is() -> None:
    has = [interface("p-mine")]
    assert next_change([PORT], [NETWORK], has) == Change(attach=NETWORK)
    has.append(interface("p-new"))
    assert next_change([PORT], [NETWORK], has) == Change(detach="p-mine")
    has.pop(0)
    assert next_change([PORT], [NETWORK], has) is None


def test_a_port_that_is_named_now_may_be_what_it_has() -> None:
    has = [interface("p-mine")]
    assert next_change([NETWORK], [PORT], has) is None


def test_a_port_whose_address_is_named_instead_is_kept() -> None:
    # Attached anew, its address would be refused: the port has it, and keeps it.
    assert next_change([PORT], [FIXED], [interface("p-mine", address="10.0.0.9")]) is None


def test_an_address_that_is_named_no_more_is_kept_where_any_will_do() -> None:
    assert next_change([FIXED], [NETWORK], [interface("p-1", address="10.0.0.9")]) is None
