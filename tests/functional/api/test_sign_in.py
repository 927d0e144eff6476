"""Names and passwords against a real server: who gets in, at what cost, and what changes at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.functional.api.live import POLICY, PREFIX, Live, policy_body, running
from tests.functional.api.people import PEOPLE, basic, private, token_file, users_file
from tests.given import Given
from tests.waiting import wait_for, wait_until

from yaffle.api.auth import passwords, read_identity, users
from yaffle.api.auth.passwords import Cost
from yaffle.config import ServerSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError

MARA = basic("mara", "correct horse")
DEAR = Cost(ln=13, r=8, p=4)
UNAUTHORIZED = {
    "error": {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sign-in")


@pytest.fixture(scope="module")
def both(folder: Path) -> Iterator[Live]:
    """A server that knows tokens and passwords."""
    files = {
        "token_file": token_file(folder),
        "users_file": users_file(folder, mara="correct horse"),
    }
    with running(folder / "state", server=files) as live:
        yield live


def get(
    live: Live, headers: dict[str, str], path: str = f"{PREFIX}/nodes", *, source: str = "127.0.0.1"
) -> httpx.Response:
    with live.client(headers, source=source) as client:
        return client.get(path)


def elsewhere(headers: dict[str, str], peer: str = "203.0.113.7") -> dict[str, str]:
    """Return the headers as a trusted proxy passes them on for somebody of another network."""
    return headers | {"X-Forwarded-For": peer}


def judged(live: Live, headers: dict[str, str], path: str = f"{PREFIX}/nodes") -> httpx.Response:
    """Ask as soon as the wrong passwords before have been waited for."""
    return wait_until(lambda: get(live, headers, path), lambda found: found.status_code != 429)


CREDENTIALS = [
    pytest.param({}, 401, id="none"),
    pytest.param(MARA, 200, id="password"),
    pytest.param(PEOPLE["reader"].headers, 200, id="token"),
    pytest.param(
        {"Authorization": MARA["Authorization"].replace("Basic", "bASIC")}, 200, id="case"
    ),
    pytest.param(basic("mara", "wrong horse"), 401, id="wrong-password"),
    pytest.param(basic("nobody", "correct horse"), 401, id="unknown-user"),
    pytest.param(basic("mara", ""), 401, id="empty-password"),
    pytest.param(basic("", ""), 401, id="empty"),
    pytest.param(basic("mara:correct horse", ""), 401, id="one-colon-more"),
    pytest.param(basic("mara", PEOPLE["reader"].token), 401, id="token-as-password"),
    pytest.param({"Authorization": f"Basic {PEOPLE['reader'].token}"}, 401, id="token-as-basic"),
    pytest.param({"X-Auth-Token": PEOPLE["reader"].token}, 401, id="token-in-another-header"),
    pytest.param({"X-Auth-Token": "notused"} | MARA, 200, id="sdk-token-beside"),
    pytest.param({"Authorization": MARA["Authorization"].replace("Basic", "Bearer")}, 401, id="b"),
    pytest.param({"Authorization": "Basic"}, 401, id="no-value"),
    pytest.param({"Authorization": "Basic !!!!"}, 401, id="no-base64"),
    pytest.param({"Authorization": "Basic /w=="}, 401, id="no-utf8"),
    pytest.param({"Authorization": "Basic bWFyYQ=="}, 401, id="no-colon"),
    pytest.param({"Authorization": f"Basic {'A' * 60_000}"}, 401, id="huge"),
    pytest.param({"Authorization": f"Bearer {'A' * 60_000}"}, 401, id="huge-token"),
]


@pytest.mark.parametrize(("headers", "status"), CREDENTIALS)
def test_credentials(both: Live, headers: dict[str, str], status: int) -> None:
    own = judged(both, headers)
    assert own.status_code == status
    theirs = judged(both, headers, "/v1/nodes")
    assert theirs.status_code == status
    if status == 401:
        assert own.json()["error"]["type"] == "Unauthorized"
        assert theirs.json() == UNAUTHORIZED
        for answer in (own, theirs):
            offered = answer.headers.get_list("www-authenticate")
            assert offered == ['Bearer realm="yaffle"', 'Basic realm="yaffle", charset="UTF-8"']


def test_two_sets_of_credentials_are_none(both: Live) -> None:
    pairs = [("Authorization", MARA["Authorization"]), *PEOPLE["reader"].headers.items()]
    with httpx.Client(base_url=f"http://{both.address}", headers=pairs) as client:
        assert client.get(f"{PREFIX}/nodes").status_code == 401


def test_headers_beyond_the_bound_end_the_connection(both: Live) -> None:
    with both.client({"Authorization": f"Basic {'A' * 300_000}"}) as client:
        try:
            status = client.get(f"{PREFIX}/nodes").status_code
        except httpx.TransportError:
            status = 400
    assert status in {400, 431}


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/health", "/livez", "/readyz"])
def test_what_is_told_to_anybody(both: Live, path: str) -> None:
    assert get(both, {}, path).status_code in {200, 300, 503}
    assert get(both, basic("mara", "wrong"), path).status_code in {200, 300, 503}


def test_the_password_says_whose_word_it_is(both: Live) -> None:
    with both.client(MARA | {"X-Yaffle-User": "root"}) as client:
        client.post("/v1/policies", json=policy_body("p")).raise_for_status()
        body = {"by": "root", "text": POLICY}
        client.put(f"{PREFIX}/policies/p", json=body).raise_for_status()
        events = client.get(f"{PREFIX}/events?limit=1000").json()["events"]
    assert {event["user"] for event in events} == {"mara"}


# --- cost ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with one user, whose password takes a tenth of a second to try."""
    path = tmp_path_factory.mktemp("dear")
    user = users.User(
        name="mara",
        hash=passwords.hashed("correct horse", DEAR),
        project="one",
        roles=("member",),
    )
    file = private(path / "users", f"{user}\n")
    server = {"users_file": file, "trusted_proxies": ["127.0.0.1"]}
    with running(path / "state", server=server) as live:
        yield live


def test_who_polls_costs_one_scrypt(dear: Live) -> None:
    # CPU of this process, in which the server is: the machine may be busy with others.
    began = time.process_time()
    passwords.hashed("x", DEAR)
    scrypt_s = time.process_time() - began
    with dear.client(MARA) as client:
        began = time.process_time()
        for _ in range(40):
            assert client.get(f"{PREFIX}/policies").status_code == 200
        assert time.process_time() - began < 20 * scrypt_s
    with dear.client(basic("mara", "old password")) as client:
        began = time.process_time()
        for _ in range(40):
            assert client.get(f"{PREFIX}/profiles").status_code == 401
        assert time.process_time() - began < 20 * scrypt_s


def test_guessing_delays_nobody_who_is_known(dear: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    assert get(dear, MARA).status_code == 200
    tried, fits = threading.Event(), passwords.Hash.fits

    def slow(self: passwords.Hash, password: str) -> bool:
        """Try a guess for as long as the test wants, as on a machine that is far too slow."""
        assert tried.wait(120)
        return fits(self, password)

    def guess(number: int) -> int:
        return get(dear, elsewhere(basic("mara", f"guess {number}"))).status_code

    monkeypatch.setattr(passwords.Hash, "fits", slow)
    with ThreadPoolExecutor(80) as pool:
        guesses = [pool.submit(guess, number) for number in range(80)]
        try:
            # Those for whom there is no room are told so at once.
            wait_for(lambda: 503 in {one.result() for one in guesses if one.done()})
            for _ in range(5):
                assert get(dear, MARA).status_code == 200
                assert get(dear, {}, "/v1").status_code == 200
            assert not all(one.done() for one in guesses)
        finally:
            tried.set()
        # Nobody is let in, and what waited behind the first that was wrong is not tried at all.
        assert {one.result() for one in guesses} == {401, 429, 503}


NAMES = [
    pytest.param("mara", "127.0.0.1", id="one-name"),
    pytest.param("nobody {}", "127.0.0.1", id="names-of-nobody"),
    # Of the very people who are about to come.
    pytest.param("user{}", "127.0.0.1", id="everybodys-name"),
    pytest.param("user{}", "127.0.0.2", id="everybodys-name-elsewhere"),
]


@pytest.mark.parametrize(("name", "source"), NAMES)
def test_who_was_not_known_yet_gets_in_beside_thirty_who_guess(
    tmp_path: Path, name: str, source: str
) -> None:
    words = {f"user{number}": f"correct horse {number}" for number in range(23)}
    known = users_file(tmp_path, mara="correct horse", **words)
    over = threading.Event()

    def guess(number: int) -> set[int]:
        found, count = set(), 0
        while not over.is_set():
            count += 1
            which = f"{number}-{count}" if name.startswith("nobody") else number % len(words)
            said = basic(name.format(which), f"guess {number} {count}")
            found.add(get(live, said).status_code)
        return found

    def sign_in(user: str, word: str) -> tuple[int, float]:
        began_s = given.s
        return get(live, basic(user, word), source=source).status_code, given.s - began_s

    with (
        running(tmp_path / "state", server={"users_file": known}) as live,
        ThreadPoolExecutor(30) as pool,
        Given() as given,
    ):
        guesses = [pool.submit(guess, number) for number in range(30)]
        try:
            # None of them known: nobody can tell them from those who guess.
            answers = [sign_in(user, word) for user, word in words.items()]
            assert [status for status, _ in answers] == [200] * len(words)
            if source != "127.0.0.1":
                assert max(s for _, s in answers) < 2
            assert get(live, MARA).status_code == 200
        finally:
            over.set()
        assert set().union(*(one.result() for one in guesses)) <= {401, 429, 503}


def test_wrong_passwords_make_their_name_wait_where_they_came_from(tmp_path: Path) -> None:
    known = users_file(tmp_path, mara="correct horse", ben="battery staple")
    server = {"users_file": known, "trusted_proxies": ["127.0.0.1"]}
    with running(tmp_path / "state", server=server) as live:
        # One wrong one costs a tenth of a second; each that is tried after that doubles it.
        for number in range(6):
            judged(live, elsewhere(basic("mara", f"guess {number}")))
        late = get(live, elsewhere(basic("mara", "one more")))
        assert late.status_code == 429
        assert late.headers["retry-after"] in {"3", "4"}
        # The right one waits as well there: nobody could tell. Elsewhere, and for others, nothing does.
        assert get(live, elsewhere(MARA)).status_code == 429
        assert get(live, elsewhere(MARA, "203.0.113.8")).status_code == 200
        assert get(live, elsewhere(basic("ben", "battery staple"))).status_code == 200
        # Known once, known wherever they come from.
        assert get(live, elsewhere(MARA)).status_code == 200


def test_loopback_is_no_network_that_waits(tmp_path: Path) -> None:
    known = users_file(tmp_path, mara="correct horse")
    with running(tmp_path / "state", server={"users_file": known}) as live:
        for number in range(12):
            assert get(live, basic("mara", f"guess {number}")).status_code == 401
        assert get(live, MARA).status_code == 200


def test_a_program_with_an_old_password_makes_nobody_wait(tmp_path: Path) -> None:
    known = users_file(tmp_path, mara="correct horse")
    server = {"users_file": known, "trusted_proxies": ["127.0.0.1"]}
    with running(tmp_path / "state", server=server) as live:
        for _ in range(20):
            old = elsewhere(basic("mara", "old password"))
            assert get(live, old).status_code == 401
        assert judged(live, elsewhere(MARA)).status_code == 200


def test_the_same_credentials_at_once_are_tried_once(tmp_path: Path) -> None:
    known = users_file(tmp_path, mara="correct horse")
    with (
        running(tmp_path / "state", server={"users_file": known}) as live,
        ThreadPoolExecutor(24) as pool,
    ):
        found = list(pool.map(lambda _: get(live, MARA).status_code, range(24)))
    assert set(found) == {200}


# --- changes of the file -------------------------------------------------------------------------


def soon(live: Live, headers: dict[str, str], status: int) -> None:
    """Wait until the credentials are answered so; a file is looked at once a second."""
    wait_until(lambda: get(live, headers).status_code, lambda found: found == status)


def test_the_file_counts_as_it_is_and_a_broken_one_as_it_was(tmp_path: Path) -> None:
    file = users_file(tmp_path, mara="correct horse")
    first = file.read_text()
    ben = basic("ben", "battery staple")
    with running(tmp_path / "state", server={"users_file": file}) as live:
        assert get(live, MARA).status_code == 200
        assert get(live, ben).status_code == 401
        more = users_file(tmp_path, mara="correct horse", ben="battery staple").read_text()
        soon(live, ben, 200)
        # Half a file, a file that others may read, no file: nobody is locked out, nobody let in.
        private(file, more[: len(more) // 4])
        time_to_look(live)
        assert get(live, ben).status_code == 200
        private(file, first, mode=0o644)
        time_to_look(live)
        assert get(live, ben).status_code == 200
        file.unlink()
        time_to_look(live)
        assert get(live, ben).status_code == 200
        # Whoever is removed is out, although remembered; and nobody at all is a content, too.
        private(file, first)
        soon(live, ben, 401)
        assert get(live, MARA).status_code == 200
        private(file, "# nobody\n")
        soon(live, MARA, 401)


def test_a_change_of_others_has_nobody_prove_anew_who_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = users_file(tmp_path, mara="correct horse")
    other = tmp_path / "other"
    other.mkdir()
    ben = basic("ben", "battery staple")
    with running(tmp_path / "state", server={"users_file": file}) as live:
        assert get(live, MARA).status_code == 200
        line = file.read_text()
        private(file, line + users_file(other, ben="battery staple").read_text())
        wait_until(lambda: judged(live, ben).status_code, lambda status: status == 200)

        def never(self: passwords.Hash, password: str) -> bool:
            raise AssertionError("a password was tried")

        monkeypatch.setattr(passwords.Hash, "fits", never)
        assert get(live, MARA).status_code == 200
        # Whose own line was changed has to.
        private(file, line.replace(":member", ":reader"))
        soon(live, MARA, 500)


def time_to_look(live: Live) -> None:
    """Ask for longer than a second, so that the file has been looked at."""
    end = time.monotonic() + 1.3
    while time.monotonic() < end:
        get(live, {})
        time.sleep(0.05)


def test_tokens_change_without_a_restart_too(tmp_path: Path) -> None:
    file = private(tmp_path / "tokens", f"{PEOPLE['reader'].line}\n")
    with running(tmp_path / "state", server={"token_file": file}) as live:
        assert get(live, PEOPLE["reader"].headers).status_code == 200
        private(file, f"{PEOPLE['member'].line}\n")
        soon(live, PEOPLE["member"].headers, 200)
        assert get(live, PEOPLE["reader"].headers).status_code == 401


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        pytest.param("mara:secret\n", 0o600, "line 1", id="no-user"),
        pytest.param("", 0o604, "chmod 600", id="readable-by-all"),
        pytest.param("", 0o620, "chmod 600", id="writable-by-group"),
        pytest.param("x" * 1_048_577, 0o600, "larger", id="huge"),
    ],
)
def test_users_files_that_are_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    file = private(tmp_path / "users", text, mode)
    with pytest.raises(ConfigError, match=said) as error:
        read_identity(ServerSettings(users_file=file), SystemClock())
    assert "secret" not in str(error.value)


def test_an_open_address_may_have_users_alone(tmp_path: Path) -> None:
    server = ServerSettings(listen="0.0.0.0:0", users_file=users_file(tmp_path), tls_by_proxy=True)
    assert read_identity(server, SystemClock()).challenges


# --- media types below /v1 -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, "text/plain", "text/plain; charset=utf-8"])
@pytest.mark.parametrize(
    ("headers", "read"),
    [
        pytest.param(PEOPLE["member"].headers, True, id="token"),
        pytest.param(PEOPLE["member"].headers | {"Origin": "http://{}"}, False, id="from-a-page"),
        pytest.param(
            PEOPLE["member"].headers | {"Sec-Fetch-Site": "none"}, False, id="from-a-browser"
        ),
        pytest.param(MARA, True, id="password"),
        # A browser sends a password along for every page's request, and the page's name with it.
        pytest.param(MARA | {"Origin": "http://{}"}, False, id="password-from-a-page"),
        pytest.param(MARA | {"Sec-Fetch-Site": "same-origin"}, False, id="password-in-a-browser"),
    ],
)
def test_a_body_without_a_media_type(
    both: Live, headers: dict[str, str], kind: str | None, *, read: bool
) -> None:
    sent = {name: value.format(both.address) for name, value in headers.items()}
    if kind is not None:
        sent["Content-Type"] = kind
    with both.client(sent) as client:
        answer = client.post("/v1/policies", content=b'{"policy": {}}')
        assert answer.status_code == (400 if read else 415), answer.text
        own = client.post(f"{PREFIX}/maintenance", content=b"{}")
        assert own.status_code == 415


def test_a_form_is_never_read(both: Live) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with both.client(PEOPLE["member"].headers | form) as client:
        answer = client.post("/v1/policies", content=b'{"policy": {}}')
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == 415


def test_without_credentials_a_page_could_be_anybody(tmp_path: Path) -> None:
    with running(tmp_path / "state") as live:
        with live.client({"Origin": f"http://{live.address}"}) as client:
            assert client.post("/v1/policies", content=b'{"policy": {}}').status_code == 415
        with live.client() as client:
            assert client.post("/v1/policies", content=b'{"policy": {}}').status_code == 400
        # Any token or none, and whatever name is said.
        with live.client({"X-Auth-Token": "notused", "X-Yaffle-User": "mara"}) as client:
            client.post(f"{PREFIX}/stop", json={"reason": "x"}).raise_for_status()
            assert client.get(f"{PREFIX}/stop").json()["stops"][0]["owner"] == "mara"
