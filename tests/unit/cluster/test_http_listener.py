"""The address of the HTTP port."""

import pytest

from headrace.cluster.http_listener import is_loopback, read_http_listener
from headrace.cluster.listeners import BadListener
from headrace.cluster.settings import BrokerSettings, InvalidSetting


@pytest.mark.parametrize(
    ("address", "host", "port", "uses_tls", "loopback"),
    [
        ("http://127.0.0.1:9644", "127.0.0.1", 9644, False, True),
        ("https://[::1]:0/", "[::1]", 0, True, True),
        ("HTTP://localhost:1", "localhost", 1, False, True),
        ("http://:9644", "", 9644, False, False),
        ("http://0.0.0.0:9644", "0.0.0.0", 9644, False, False),
        ("http://broker-1.example:80", "broker-1.example", 80, False, False),
        ("http://127.0.0.1.example:80", "127.0.0.1.example", 80, False, False),
    ],
)
def test_an_address_is_read(
    address: str, host: str, port: int, uses_tls: bool, loopback: bool
) -> None:
    listener = read_http_listener(address)
    assert listener is not None
    assert (listener.host, listener.port, listener.uses_tls) == (host, port, uses_tls)
    assert is_loopback(listener) is loopback


@pytest.mark.parametrize(
    "address",
    [
        "9644",
        "127.0.0.1:9644",
        "ftp://h:1",
        "http://h",
        "http://h:65536",
        "http://u@h:1",
        "http://h:1/x",
    ],
)
def test_another_text_is_refused(address: str) -> None:
    with pytest.raises(BadListener):
        read_http_listener(address)


def test_without_an_address_there_is_no_port() -> None:
    assert read_http_listener("") is None
    assert BrokerSettings.parse({}).http_listener is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"headrace.http.listener": "localhost:1"}, "must be of the form"),
        (
            {
                "headrace.http.listener": "http://:1",
                "listeners": "HTTP://:2",
                "listener.security.protocol.map": "HTTP:PLAINTEXT",
            },
            "has the name HTTP",
        ),
        (
            {"headrace.http.listener": "http://:1", "headrace.http.authentication": "bearer"},
            "needs headrace.http.bearer.token.file",
        ),
        ({"headrace.http.authentication": "digest"}, "basic, bearer"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        BrokerSettings.parse(settings)


def test_a_port_with_tls_uses_the_tls_settings() -> None:
    settings = BrokerSettings.parse({"headrace.http.listener": "https://127.0.0.1:0"})
    assert [each.name for each in settings.tls_listeners] == ["HTTP"]
    assert BrokerSettings.parse({"headrace.http.listener": "http://:1"}).tls_listeners == ()
