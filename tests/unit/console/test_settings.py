"""The options of the console, and what they exclude."""

import pytest

from headrace.console.settings import ConsoleSettings, InvalidConsoleSetting, ListenAddress

SERVERS = {"bootstrap.servers": "127.0.0.1:9092"}
SASL = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:9645", "127.0.0.1", 9645, True),
        ("9645", "127.0.0.1", 9645, True),
        ("[::1]:0", "::1", 0, True),
        ("localhost:1", "localhost", 1, True),
        ("0.0.0.0:9645", "0.0.0.0", 9645, False),
        ("kafka.example:80", "kafka.example", 80, False),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int, *, loopback: bool) -> None:
    address = ListenAddress.parse(text)
    assert (address.host, address.port, address.is_loopback) == (host, port, loopback)


@pytest.mark.parametrize("text", ["", "host:", ":1", "host:70000", "host:x"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidConsoleSetting, match="--listen"):
        ListenAddress.parse(text)


def test_a_login_is_needed_when_the_cluster_has_sasl_and_the_settings_no_credentials() -> None:
    assert not ConsoleSettings(SERVERS).needs_login
    assert ConsoleSettings(SASL).needs_login
    given = {**SASL, "sasl.username": "a", "sasl.password": "b"}
    assert not ConsoleSettings(given).needs_login


def test_secrets_are_not_in_the_representation() -> None:
    given = {**SASL, "sasl.username": "a", "sasl.password": "s3cret"}
    assert "s3cret" not in repr(ConsoleSettings(given))


def test_passwords_do_not_cross_a_network_without_tls() -> None:
    listen = ListenAddress("192.0.2.1", 9645)
    with pytest.raises(InvalidConsoleSetting, match="unencrypted"):
        ConsoleSettings(SASL, listen).check()
    ConsoleSettings(SASL, listen, certificate="cert.pem").check()


def test_a_console_on_all_addresses_needs_a_name() -> None:
    listen = ListenAddress("0.0.0.0", 9645)
    with pytest.raises(InvalidConsoleSetting, match="--host-name"):
        ConsoleSettings(SERVERS, listen).check()
    ConsoleSettings(SERVERS, listen, host_names=("console.example",)).check()


def test_the_host_header_must_name_the_console() -> None:
    local = ConsoleSettings(SERVERS).allowed_hosts(9645)
    assert {"localhost:9645", "127.0.0.1:9645", "[::1]:9645"} <= local
    assert "evil.example" not in local
    assert "localhost:80" not in local
    named = ConsoleSettings(
        SERVERS, ListenAddress("0.0.0.0", 1), host_names=("Console.Example",)
    ).allowed_hosts(443)
    assert named == {"console.example", "console.example:443"}
