"""URLs, patterns, reference targets and thresholds: what is taken, and what each mistake is told."""

from __future__ import annotations

import pytest
from tests.unit.policy.documents import accepted, document, problems, url_mode

from yaffle.model.policy import Threshold


@pytest.mark.parametrize(
    "url",
    [
        "http://{nodename}/healthstatus",
        "https://{node_ip}:{port}/health?node={node_id}&copy={physical_id}&of={cluster_name}",
        "HTTP://host",
        "http://[2001:db8::1]:8080/",
        "http://127.0.0.1:8080/x%20y",
        "http://under_score.example/",
        # Addresses are judged at run time, where names are resolved too.
        "http://169.254.169.254/",
    ],
)
def test_poll_url_is_taken(url: str) -> None:
    parsed = accepted(document(modes=[url_mode(poll_url=url)]))
    options = parsed.policy.detection.modes[0].url
    assert options is not None
    assert options.poll_url == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/", "is not http://host/path or https://host/path"),
        ("file:///etc/passwd", "is not http://host/path"),
        ("host/health", "is not http://host/path"),
        ("http:///health", "is not http://host/path"),
        ("http:\\\\host", "is not http://host/path"),
        ("{nodename}", "is not http://host/path"),
        ("http://host:99999/", "is not a URL: invalid port number"),
        ("http://host:0/", "port 0 cannot be asked"),
        ("http://me:secret@host/", "user name and password in a URL are not supported"),
        ("http://host/a b", "a URL has no blanks"),
        ("http://host/a\nb", "a URL has no blanks"),
        ("http://{node_name}/", "unknown expansion {node_name} (did you mean nodename?)"),
        ("http://{}/", "unknown expansion {}"),
        ("http://{nodename/", "a brace without its partner"),
        ("http://{nodename}}/", "a brace without its partner"),
        ("http://host/" + "x" * 3000, "3012 characters long; at most 2048"),
        (["http://x/"], "a list is not text"),
        ({"nodename": None}, "a mapping is not text; quote it"),
        (True, "true is not text"),
    ],
)
def test_poll_url_is_refused(url: object, said: str) -> None:
    (line,) = problems(document(modes=[url_mode(poll_url=url)]))
    assert line.startswith("detection.detection_modes.0.options.poll_url: ")
    assert said in line


def test_a_secret_in_a_url_is_not_printed() -> None:
    assert "secret" not in problems(document(modes=[url_mode(poll_url="http://a:secret@b/")]))[0]


@pytest.mark.parametrize("pattern", ["passing", "(?i)ok|fine", '"status": *"pass"', "", "ünïcode"])
def test_pattern_is_taken(pattern: str) -> None:
    accepted(document(modes=[url_mode(poll_url_healthy_response=pattern)]))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(ok", "missing"),
        ("*", "no argument for repetition operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=ok)", "no look-around"),
        ("(((a{100}){100}){100})", "not a regular expression we can run"),
        ("x" * 5000, "5000 characters long; at most 4096"),
    ],
)
def test_pattern_is_refused(pattern: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = problems(document(modes=[url_mode(poll_url_healthy_response=pattern)]))
    assert "options.poll_url_healthy_response: " in line
    assert said in line
    # The engine writes to stderr unless told not to.
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "target", ["10.0.0.1:53", "dns.example:853", "[2001:db8::1]:53", "http://a/"]
)
def test_reference_target_is_taken(target: str) -> None:
    parsed = accepted(document(detection={"reference_targets": [target]}))
    assert parsed.policy.reference_targets == (target,)


@pytest.mark.parametrize(
    "target", ["10.0.0.1", "host:0", "host:70000", "ftp://a/", "a b:53", "", "{node_ip}:53"]
)
def test_reference_target_is_refused(target: str) -> None:
    (line,) = problems(document(detection={"reference_targets": ["a:1", target]}))
    assert line.startswith("detection.reference_targets.1: ")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("40%", Threshold(percent=40)),
        (" 12.5 % ", Threshold(percent=12.5)),
        (3, Threshold(count=3)),
        ("3", Threshold(count=3)),
    ],
)
def test_threshold_is_taken(written: object, read: Threshold) -> None:
    parsed = accepted(document(recovery={"limits": {"max_unhealthy": written}}))
    assert parsed.policy.recovery.limits.max_unhealthy == read


@pytest.mark.parametrize("written", ["140%", "-1%", -1, 2.5, "40 percent", True, None, [], "%"])
def test_threshold_is_refused(written: object) -> None:
    (line,) = problems(document(recovery={"limits": {"max_unhealthy": written}}))
    assert line.startswith("recovery.limits.max_unhealthy: ")
