"""The proxies fail as networks do, each mode in its own way, and come back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.chaos.fleet.proxy import Mode, Network, Proxy, network


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that answers every line with itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()
        listener.settimeout(0.05)

        def answer(peer: socket.socket) -> None:
            peer.settimeout(60)
            try:
                with peer:
                    while data := peer.recv(100):
                        peer.sendall(data)
            except OSError:
                pass

        threads: list[threading.Thread] = []

        def serve() -> None:
            while not ended.is_set():
                try:
                    peer, _ = listener.accept()
                except TimeoutError:
                    continue
                threads.append(threading.Thread(target=answer, args=(peer,), daemon=True))
                threads[-1].start()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listener.getsockname()
        ended.set()
        serving.join(60)
        for thread in threads:
            thread.join(60)


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as made:
        yield made


def dial(proxy: Proxy) -> socket.socket:
    return socket.create_connection(proxy.address, timeout=60)


def says(sock: socket.socket, text: bytes, within_s: float = 60) -> bytes | None:
    """Return the echo, None where none comes."""
    sock.sendall(text)
    sock.settimeout(within_s)
    try:
        return sock.recv(100)
    except TimeoutError:
        return None
    finally:
        sock.settimeout(60)


def test_open_passes(net: Network, echo: tuple[str, int]) -> None:
    proxy = net.proxy(echo)
    with dial(proxy) as sock:
        assert says(sock, b"hello") == b"hello"


def test_what_was_sent_into_a_stall_arrives_late(net: Network, echo: tuple[str, int]) -> None:
    proxy = net.proxy(echo)
    with dial(proxy) as sock:
        assert says(sock, b"one") == b"one"
        net.turn(proxy, Mode.STALL)
        assert says(sock, b"two", 0.3) is None
        net.turn(proxy, Mode.OPEN)
        assert sock.recv(100) == b"two"


@pytest.mark.parametrize("mode", [Mode.MUTE, Mode.HOLE])
def test_silence_ends_the_connection_when_it_is_over(
    net: Network, echo: tuple[str, int], mode: Mode
) -> None:
    proxy = net.proxy(echo)
    with dial(proxy) as sock:
        assert says(sock, b"one") == b"one"
        net.turn(proxy, mode)
        assert says(sock, b"two", 0.3) is None
        net.turn(proxy, Mode.OPEN)
        with pytest.raises(ConnectionError):
            assert sock.recv(100) == b"an end"
    with dial(proxy) as sock:
        assert says(sock, b"three") == b"three"


def test_refused_now_and_later(net: Network, echo: tuple[str, int]) -> None:
    proxy = net.proxy(echo)
    with dial(proxy) as sock:
        assert says(sock, b"one") == b"one"
        net.turn(proxy, Mode.REFUSE)
        with pytest.raises(ConnectionError):
            assert sock.recv(100) == b"an end"
    # The reset may be there before the connection is.
    with pytest.raises(ConnectionError), dial(proxy) as sock:
        assert sock.recv(100) == b"an end"


def test_slow_is_late_and_whole(net: Network, echo: tuple[str, int]) -> None:
    proxy = net.proxy(echo)
    net.turn(proxy, Mode.SLOW)
    with dial(proxy) as sock:
        assert says(sock, b"hello") == b"hello"
