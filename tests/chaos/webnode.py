"""A small web node whose diary survives it, so that two copies at once leave a trace.

`webnode.py PORT NAME DIARY_DIR [ADDRESS]`: takes an exclusive flock on `NAME.lock` for life (a stopped
process keeps it), appends `start|beat|violation|crash PID TIME_US` to `NAME.diary`, and to `NAME.made`
at each start `PID BORN_US OPERATION`, answers 200 to anything. Manners, read from `NAME.manner` at
start: `ignore-term`, `crash N` (ends at once, N times over all starts), `die-after SECONDS`, `slow
SECONDS` (before it serves). Of Yaffle it knows only which operation has started it.
"""

import fcntl
import os
import resource
import signal
import socket
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
BEAT_S = 0.1


def main() -> None:
    """Serve until killed."""
    port, name, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    # Whoever started us may have been short of disk; the evidence must be written all the same.
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
    diary = os.open(f"{folder}/{name}.diary", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    lock = os.open(f"{folder}/{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def note(word: str, at_us: int = 0) -> None:
        at_us = at_us or time.time_ns() // 1000
        os.write(diary, f"{word} {os.getpid()} {at_us}\n".encode())

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("violation")
    born = born_us()
    note("start", born)
    operation = os.environ.get("YAFFLE_OPERATION_ID", "-")
    made = os.open(f"{folder}/{name}.made", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(made, f"{os.getpid()} {born} {operation}\n".encode())
    manners = manners_of(f"{folder}/{name}.manner")
    if "ignore-term" in manners:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if crashes_now(f"{folder}/{name}.crashes", int(manners.get("crash", "0"))):
        note("crash")
        os._exit(3)
    time.sleep(float(manners.get("slow", "0")))
    life_s = float(manners.get("die-after", "inf"))
    address = sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1"
    serve(address, port, note, time.monotonic() + life_s)


def born_us() -> int:
    """Return when the kernel made this process; on a busy machine that is long before its first line."""
    with open("/proc/self/stat") as file:  # noqa: PTH123
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/uptime") as file:  # noqa: PTH123
        age_s = float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time_ns() // 1000 - int(age_s * 1e6)


def manners_of(path: str) -> dict[str, str]:
    """Return word → argument."""
    try:
        with open(path) as file:  # noqa: PTH123 - pathlib costs more than the rest of the start
            lines = [line.split() for line in file if line.strip()]
    except FileNotFoundError:
        return {}
    return {words[0]: words[1] if len(words) > 1 else "" for words in lines}


def crashes_now(path: str, times: int) -> bool:
    """Count crashes in a file, because each is another process."""
    if times <= 0:
        return False
    with open(path, "a+") as file:  # noqa: PTH123
        done = file.tell()
        if done >= times:
            return False
        file.write("x")
    return True


def serve(address: str, port: int, note, until_s: float) -> None:  # type: ignore[no-untyped-def]
    """Answer, and write a beat whenever it is quiet."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(64)
        listener.settimeout(BEAT_S)
        beat_s = 0.0
        while time.monotonic() < until_s:
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                pass
            else:
                answer(peer)
            if time.monotonic() - beat_s >= BEAT_S:
                beat_s = time.monotonic()
                note("beat")


def answer(peer: socket.socket) -> None:
    """One request, one answer; a client that went away is its own business."""
    with peer:
        peer.settimeout(0.5)
        try:
            peer.recv(4096)
            peer.sendall(ANSWER)
        except OSError:
            pass


if __name__ == "__main__":
    main()
