"""The SASL settings of listeners: precedence, and what keeps a broker from starting."""

import pytest

from headrace.cluster.listeners import Listener
from headrace.cluster.sasl_settings import SaslSettings, read_sasl_settings
from headrace.cluster.settings import BrokerSettings, InvalidSetting

MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required user_alice="secret";'
OAUTH = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.test/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer.test",
    "sasl.oauthbearer.expected.audience": "headrace",
}


def parse(**more: str) -> BrokerSettings:
    names = {name.replace("__", "."): value for name, value in more.items()}
    return BrokerSettings.parse({"listeners": "SASL_PLAINTEXT://:9092", **names})


def sasl(values: dict[str, str], name: str = "SASL_PLAINTEXT") -> SaslSettings:
    static = BrokerSettings.parse({"listeners": "PLAINTEXT://:9092", **values}).static
    return read_sasl_settings(static, Listener(name, "", 9092, "SASL_PLAINTEXT"))


def refusal(values: dict[str, str]) -> str:
    with pytest.raises(InvalidSetting) as refused:
        BrokerSettings.parse({"listeners": "SASL_PLAINTEXT://:9092", **values})
    assert "secret" not in str(refused.value)
    return str(refused.value)


def test_a_listener_with_kafkas_default_says_that_gssapi_is_not_supported() -> None:
    assert "GSSAPI (Kerberos) is not supported" in refusal({})


def test_gssapi_in_a_list_is_left_out_with_a_warning() -> None:
    settings = parse(sasl__enabled__mechanisms="GSSAPI,SCRAM-SHA-512")
    assert settings.sasl(settings.listeners[0]).mechanisms == ("SCRAM-SHA-512",)
    assert any("GSSAPI" in each for each in settings.warnings)


def test_unknown_mechanisms_are_refused() -> None:
    assert "SCRAM-SHA-1" in refusal({"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-1"})
    assert "use PLAIN" in refusal({"sasl.enabled.mechanisms": "plain"})


def test_a_listener_and_a_mechanism_override_the_settings_of_all() -> None:
    values = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.clients.plain.sasl.jaas.config": PLAIN,
        "connections.max.reauth.ms": "1000",
        "listener.name.clients.connections.max.reauth.ms": "2000",
        "listener.name.clients.plain.connections.max.reauth.ms": "3000",
        "listener.name.clients.sasl.server.max.receive.size": "999",
    }
    own = sasl(values, "CLIENTS")
    assert own.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert own.max_reauth_ms == {"PLAIN": 3000, "SCRAM-SHA-512": 2000}
    assert own.max_receive_bytes == 999
    assert own.plain_passwords == {"alice": "secret"}
    other = sasl(values, "OTHER")
    assert other.mechanisms == ("SCRAM-SHA-256",)
    assert other.max_reauth_ms == {"SCRAM-SHA-256": 1000}
    assert other.max_receive_bytes == 524288


def test_settings_do_not_show_passwords() -> None:
    values = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    }
    assert "secret" not in repr(sasl(values))


@pytest.mark.parametrize(
    "jaas",
    [
        None,
        f"{MODULES}.plain.PlainLoginModule required;",
        f'{MODULES}.plain.PlainLoginModule required username="a" password="secret";',
        f'{MODULES}.plain.PlainLoginModule required user_alice="";',
        f'{MODULES}.scram.ScramLoginModule required user_alice="secret";',
        'com.sun.security.auth.module.JndiLoginModule required user_alice="secret";',
        "secret",
    ],
)
def test_plain_needs_users(jaas: str | None) -> None:
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    values = {"sasl.enabled.mechanisms": "PLAIN"} | ({} if jaas is None else {name: jaas})
    assert name in refusal(values)


def test_login_settings_without_a_prefix_are_ignored_with_a_warning() -> None:
    settings = parse(
        sasl__enabled__mechanisms="SCRAM-SHA-256", sasl__jaas__config="anything secret"
    )
    (warning,) = [each for each in settings.warnings if "sasl.jaas.config" in each]
    assert "listener.name." in warning
    assert "secret" not in warning


@pytest.mark.parametrize(
    "missing",
    [name for name in OAUTH if name.startswith("sasl.oauthbearer.")],
)
def test_oauthbearer_needs_keys_an_issuer_and_an_audience(missing: str) -> None:
    """CVE-2026-33557: a broker that validates nothing accepts every token."""
    values = {name: value for name, value in OAUTH.items() if name != missing}
    assert missing in refusal(values)


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.test/keys",
        "http://127.0.0.1:8000/keys",
        "file:///etc/passwd",
        "file://server/share/keys",
        "ftp://issuer.test/keys",
        "jar:file:///x.jar!/keys",
        "https://",
        "https:///keys",
        "https://user:secret@issuer.test/keys",
        "https://[::1/keys",
        "issuer.test/keys",
        "gopher://x",
    ],
)
def test_only_https_urls_are_fetched(url: str) -> None:
    """CVE-2025-27817: a URL that reads files or internal services."""
    values = {**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": url}
    assert "sasl.oauthbearer.jwks.endpoint.url" in refusal(values)


@pytest.mark.parametrize("url", ["file:///etc/keys.json", "http://127.0.0.1:8000/keys"])
def test_files_and_this_machine_are_allowed_if_they_are_listed(url: str) -> None:
    listed = {"headrace.oauthbearer.allowed.urls": f"https://other,{url}"}
    found = sasl({**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": url, **listed})
    assert found.oauthbearer is not None
    assert found.oauthbearer.keys_url == url


def test_http_on_another_machine_is_refused_even_if_it_is_listed() -> None:
    url = "http://issuer.test/keys"
    listed = {"headrace.oauthbearer.allowed.urls": url}
    refusal({**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": url, **listed})


def test_a_plaintext_broker_needs_no_sasl_settings() -> None:
    BrokerSettings.parse({"listeners": "PLAINTEXT://:9092", "sasl.enabled.mechanisms": "PLAIN"})
