"""What an operator may say of brokers, what is refused, and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.private import private

from yaffle.drivers.detectors.lifecycle.settings import LifecycleSettings, SourceSettings
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section

PASSWORD = "s3cr3t"
URL = f"amqp://nova:{PASSWORD}@mq1.example:5672/"


def read(**source: object) -> SourceSettings:
    section = Section("drivers.LIFECYCLE_EVENTS", {"sources": {"lab": source}})
    return LifecycleSettings.read(section).sources[0]


def test_one_url_is_enough() -> None:
    found = read(urls=[URL])
    assert found.exchanges == ("nova",)
    assert found.topics == ("notifications", "versioned_notifications")
    assert [b.name for b in found.urls] == ["mq1.example:5672"]
    assert found.ssl is None
    assert PASSWORD not in repr(found)


def test_a_transport_url_can_be_copied() -> None:
    found = read(urls=[f"rabbit://nova:{PASSWORD}@mq1.example/nova"])
    assert (found.urls[0].user, found.urls[0].password) == ("nova", PASSWORD)
    assert found.urls[0].vhost == "nova"
    assert found.urls[0].name == "mq1.example:5672"


def test_several_brokers_and_ipv6() -> None:
    found = read(urls=[URL, "amqps://u:p@[::1]/"])
    assert [(b.name, b.tls) for b in found.urls] == [
        ("mq1.example:5672", False),
        ("[::1]:5671", True),
    ]
    assert found.ssl is not None


def test_urls_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "urls"
    private(file, f"{URL}\n\n  amqp://u:p@mq2.example/  \n")
    assert [b.name for b in read(urls_file=str(file)).urls] == [
        "mq1.example:5672",
        "mq2.example:5672",
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param({}, "urls or urls_file is needed, exactly one", id="none"),
        pytest.param({"urls": [URL], "urls_file": "/x"}, "exactly one", id="both"),
        pytest.param({"urls": []}, "non-empty list", id="empty"),
        pytest.param({"urls": URL}, "list", id="one text"),
        pytest.param({"urls_file": "/no/such/file"}, "No such file", id="no file"),
        pytest.param({"urls": [f"http://u:{PASSWORD}@h/"]}, "amqp://", id="http"),
        pytest.param({"urls": [f"amqp://u:{PASSWORD}@"]}, "amqp://", id="no host"),
        pytest.param({"urls": [f"amqp://u:{PASSWORD}@h:x/"]}, "no URL", id="port"),
        pytest.param(
            {"urls": [f"rabbit://u:{PASSWORD}@a:5672,u:{PASSWORD}@b:5672/"]}, "several", id="list"
        ),
        pytest.param({"urls": [f"{URL}?ssl=1"]}, "no ?", id="query"),
        pytest.param({"urls": [URL], "ca_file": "/x"}, "urls has no amqps://", id="tls unused"),
        pytest.param({"urls": [URL], "verify": False}, "urls has no amqps://", id="verify unused"),
        pytest.param(
            {"urls": [f"amqps://u:{PASSWORD}@h/"], "ca_file": "/no/ca"}, "ca_file", id="no ca"
        ),
        pytest.param(
            {"urls": [f"amqps://u:{PASSWORD}@h/"], "cert_file": "/no/cert"}, "cert_file", id="cert"
        ),
        pytest.param({"urls": [URL], "queue_length": 5}, "queue_length", id="short"),
        pytest.param({"urls": [URL], "exchange": "nova"}, "did you mean exchanges?", id="unknown"),
    ],
)
def test_what_is_wrong_is_named_without_its_password(source: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(**source)
    assert said in str(raised.value)
    assert "drivers.LIFECYCLE_EVENTS" in str(raised.value)
    assert PASSWORD not in str(raised.value)


def test_a_key_beside_sources_is_unknown() -> None:
    with pytest.raises(
        ConfigError, match=r"drivers\.LIFECYCLE_EVENTS\.urls: there is no such setting"
    ):
        LifecycleSettings.read(Section("drivers.LIFECYCLE_EVENTS", {"urls": [URL]}))


def test_without_sources_there_are_none() -> None:
    assert LifecycleSettings.read(Section("drivers.LIFECYCLE_EVENTS", {})).sources == ()
