"""The table of addresses: what the `uri` option accepts, and why it refuses the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from yaffle_health.errors import BadOption, BadUri
from yaffle_health.uris import SUN_PATH_MAX, Tcp, Unix, parse

ACCEPTED = [
    ("", ()),
    ("  ", ()),
    ("tcp://localhost:8080", (Tcp("localhost", 8080),)),
    ("tcp://127.0.0.1:65535", (Tcp("127.0.0.1", 65535),)),
    ("tcp://0.0.0.0:1", (Tcp("0.0.0.0", 1),)),
    ("tcp://[::1]:80", (Tcp("::1", 80),)),
    ("tcp://[::]:80", (Tcp("::", 80),)),
    ("tcp://[fe80::1%25eth0]:80", (Tcp("fe80::1%eth0", 80),)),
    ("tcp://node-1.example.org:80", (Tcp("node-1.example.org", 80),)),
    ("TCP://localhost:80", (Tcp("localhost", 80),)),
    ("tcp://LocalHost:80", (Tcp("localhost", 80),)),
    ("tcp://0.0.0.0:80,tcp://[::]:80", (Tcp("0.0.0.0", 80), Tcp("::", 80))),
    ("tcp://0.0.0.0:80,tcp://127.0.0.1:81", (Tcp("0.0.0.0", 80), Tcp("127.0.0.1", 81))),
    ("tcp://0.0.0.0:80,tcp://[::1]:80", (Tcp("0.0.0.0", 80), Tcp("::1", 80))),
    ("unix:///run/nova/nova-compute.sock", (Unix("/run/nova/nova-compute.sock"),)),
    ("unix:/run/nova.sock", (Unix("/run/nova.sock"),)),
    ("UNIX:///run/nova.sock", (Unix("/run/nova.sock"),)),
    ("unix:////run//nova/./nova.sock/", (Unix("/run/nova/nova.sock"),)),
    ("unix:///run/a%20b.sock", (Unix("/run/a b.sock"),)),
    ("unix:///run/a%2Fb.sock", (Unix("/run/a/b.sock"),)),
    ("unix:///run/a%252Fb.sock", (Unix("/run/a%2Fb.sock"),)),
    ("unix:///run/a%2Cb.sock", (Unix("/run/a,b.sock"),)),
    ("unix:///run/w-{pid}.sock", (Unix("/run/w-{pid}.sock"),)),
    ("unix:///" + "x" * (SUN_PATH_MAX - 1), (Unix("/" + "x" * (SUN_PATH_MAX - 1)),)),
    (
        " tcp://localhost:4242 , unix:///run/nova/nova-compute.sock\n",
        (Tcp("localhost", 4242), Unix("/run/nova/nova-compute.sock")),
    ),
]

REFUSED = [
    ("tcp://localhost:424242", "1 to 65535"),  # the seed's own example
    ("tcp://localhost:65536", "1 to 65535"),
    ("tcp://localhost:0", "1 to 65535"),
    ("tcp://localhost:-1", "no valid URI"),
    ("tcp://localhost", "port is missing"),
    ("tcp://localhost:", "port is missing"),
    ("tcp://:80", "host is missing"),
    ("tcp://", "host is missing"),
    ("tcp:", "host is missing"),
    ("tcp:localhost:80", "path"),
    ("tcp://*:80", "0.0.0.0"),
    ("tcp://::1:80", "brackets"),
    ("tcp://[::1:80", "no valid URI"),
    ("tcp://[fe80::1%eth0]:80", "%25"),
    ("tcp://[v1.x]:80", "no IPv6 address"),
    ("tcp://user:secret@localhost:80", "userinfo"),
    ("tcp://localhost:80/", "no path"),
    ("tcp://localhost:80/health", "no path"),
    ("tcp://localhost:80?x=1", "query"),
    ("tcp://localhost:80#x", "fragment"),
    ("tcp://127.1:80", "no IPv4 address"),
    ("tcp://1:80", "no IPv4 address"),
    ("tcp://999.1.1.1:80", "no valid URI"),
    ("tcp://-host:80", "no host name"),
    ("tcp://h%41:80", "no host name"),
    ("tcp://b\u00fccher:80", "no valid URI"),
    ("tcp://localhost:8\uff10", "no valid URI"),
    ("unix://run/x.sock", "three slashes"),
    ("unix://", "absolute"),
    ("unix:", "absolute"),
    ("unix:run/x.sock", "absolute"),
    ("unix:///", "names no file"),
    ("unix:///run/../etc/x.sock", "'..'"),
    ("unix:///run/%2E%2E/x.sock", "'..'"),
    ("unix:///run/x.sock?mode=660", "query"),
    ("unix:///run/x.sock#a", "fragment"),
    ("unix:///run/%00x", "control characters"),
    ("unix:///run/a\nb", "control characters"),
    ("unix:///run/a b.sock", "may be used"),
    ("unix:///run/\u00e9.sock", "may be used"),
    ("unix:///run/{name}.sock", "may be used"),
    ("unix:///" + "x" * SUN_PATH_MAX, "107"),
    ("unix:///" + "x" * 95 + "{pid}.sock", "107"),
    ("http://localhost:80", "tcp://host:port"),
    ("//localhost:80", "tcp://host:port"),
    ("localhost:80", "tcp://host:port"),
    ("/run/nova.sock", "tcp://host:port"),
    ("tcp://localhost:80,,tcp://localhost:81", "empty"),
    ("tcp://localhost:80,", "empty"),
    ("tcp://localhost:80,TCP://localhost:80", "twice"),
    ("tcp://LOCALHOST:80,tcp://localhost:80", "twice"),
    ("tcp://[::1]:80,tcp://[0:0:0::1]:80", "twice"),
    ("unix:///run/x.sock,unix:///run/./x.sock", "twice"),
    (
        "tcp://0.0.0.0:80,tcp://127.0.0.1:80",
        "tcp://0.0.0.0:80 listens on tcp://127.0.0.1:80 as well",
    ),
    (
        "tcp://127.0.0.1:80,tcp://0.0.0.0:80",
        "tcp://0.0.0.0:80 listens on tcp://127.0.0.1:80 as well",
    ),
    ("tcp://[::1]:80,tcp://[::]:80", "tcp://[::]:80 listens on tcp://[::1]:80 as well"),
    ("unix:///run/%zz.sock", "hex digits"),
    ("unix:///run/a%2", "hex digits"),
]


@pytest.mark.parametrize(("text", "addresses"), ACCEPTED)
def test_is_read(text: str, addresses: tuple[object, ...]) -> None:
    assert parse(text) == addresses


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_is_refused_and_says_why(text: str, why: str) -> None:
    with pytest.raises(BadUri) as refused:
        parse(text)
    message = str(refused.value)
    assert message.startswith("[healthcheck] uri = ")
    assert why in refused.value.why
    assert isinstance(refused.value, BadOption)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("text", ["tcp://h:1,", ",tcp://h:1", "tcp://h:1, ,tcp://h:2"])
def test_an_empty_entry_is_shown_with_its_list(text: str) -> None:
    with pytest.raises(BadUri) as refused:
        parse(text)
    assert repr(text) in str(refused.value)


def test_the_message_holds_the_value_but_no_password() -> None:
    with pytest.raises(BadUri) as refused:
        parse("tcp://user:secret@localhost:80")
    assert "localhost:80" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_port_zero_is_for_tests() -> None:
    assert parse("tcp://127.0.0.1:0", ephemeral=True) == (Tcp("127.0.0.1", 0),)


@pytest.mark.parametrize(
    "address",
    [
        Tcp("::1", 80),
        Tcp("fe80::1%eth0", 80),
        Tcp("localhost", 80),
        Unix("/run/a b.sock"),
        Unix("/r/{pid}.s"),
    ],
)
def test_an_address_is_written_as_it_is_read(address: Tcp | Unix) -> None:
    assert parse(str(address)) == (address,)


def test_the_process_id_stands_in_its_place() -> None:
    assert Unix("/run/w-{pid}.sock").of_process(7) == Unix("/run/w-7.sock")


def test_importing_the_module_does_not_import_rfc3986() -> None:
    code = "import sys, yaffle_health.uris; print('rfc3986' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
