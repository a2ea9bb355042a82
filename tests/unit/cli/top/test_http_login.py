"""Only credentials that are meant for HTTP ports are sent to them."""

import pytest

from headrace.cli.exit_codes import CommandFailed
from headrace.cli.secrets import is_secret
from headrace.cli.top.http_login import PASSWORD, TOKEN, USERNAME, HttpLogin, http_login
from headrace.client.login.rdkafka_settings import rdkafka_settings

KAFKA = {"sasl.username": "me", "sasl.password": "secret", "security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("settings", "authorization"),
    [
        ({}, None),
        ({USERNAME: "reader", PASSWORD: "pass:word"}, "Basic cmVhZGVyOnBhc3M6d29yZA=="),
        ({TOKEN: "abc"}, "Bearer abc"),
    ],
)
def test_the_header_of_a_login(settings: dict[str, str], authorization: str | None) -> None:
    assert http_login(KAFKA | settings).authorization == authorization


def test_https_is_checked_with_its_own_certificates_or_those_of_the_listener() -> None:
    assert http_login({"ssl.ca.location": "a"}) == HttpLogin(None, "a")
    assert http_login({"ssl.ca.location": "a", "https.ca.location": "b"}).ca_file == "b"


@pytest.mark.parametrize(
    "settings", [{USERNAME: "a"}, {PASSWORD: "b"}, {TOKEN: "c", USERNAME: "a", PASSWORD: "b"}]
)
def test_a_contradiction_is_an_invalid_command_line(settings: dict[str, str]) -> None:
    with pytest.raises(CommandFailed, match="http"):
        http_login(settings)


def test_the_settings_are_secret_and_unknown_to_librdkafka() -> None:
    settings = {USERNAME: "a", PASSWORD: "b", TOKEN: "c"}
    assert [name for name in settings if is_secret(name)] == [PASSWORD, TOKEN]
    assert rdkafka_settings(settings) == {}
