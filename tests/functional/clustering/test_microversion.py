"""One header decides what an answer looks like; what cannot be spoken is refused, in two ways."""

from __future__ import annotations

import pytest
from tests.functional.clustering.senlin import Senlin


@pytest.mark.parametrize(
    ("given", "spoken"),
    [
        (None, "1.14"),
        ("clustering 1.0", "1.0"),
        ("clustering 1.9", "1.9"),
        ("clustering latest", "1.14"),
        ("CLUSTERING Latest", "1.14"),
        ("compute 2.1", "1.14"),
        ("compute 2.1, clustering 1.3", "1.3"),
    ],
)
def test_the_version_that_is_spoken_is_said(senlin: Senlin, given: str | None, spoken: str) -> None:
    with senlin.live.client({"OpenStack-API-Version": given} if given else {}) as client:
        answer = client.get("/v1/build-info")
    assert answer.headers["OpenStack-API-Version"] == f"clustering {spoken}"
    assert answer.headers["Vary"] == "OpenStack-API-Version"


@pytest.mark.parametrize("text", ["abc", "0.9", "1", "1.", "1.02", "-1.0", "1.x"])
@pytest.mark.parametrize("path", ["/v1/build-info", "/v1", "/v1/nosuch"])
def test_what_is_no_version_gets_a_page(senlin: Senlin, path: str, text: str) -> None:
    with senlin.live.client({"OpenStack-API-Version": f"clustering {text}"}) as client:
        answer = client.get(path)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/html")
    assert f"API Version String &#x27;{text}&#x27; is of invalid format" in answer.text


@pytest.mark.parametrize("text", ["1.99", "1.15", "2.0"])
def test_what_is_not_spoken_here_is_not_acceptable(senlin: Senlin, text: str) -> None:
    kind, message = senlin.refused("GET", "/build-info", want=406, version=text)
    assert kind == "InvalidGlobalAPIVersion"
    assert message == (
        f"Version '{text}' is not supported by the API. Minimum is '1.0' and maximum is '1.14'."
    )
