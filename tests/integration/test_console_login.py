"""Logins to the console with the cluster's own credentials."""

import re
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from urllib.parse import urlsplit

import pytest

from headrace.testing import Broker
from support.console.served_console import ServedConsole, served
from support.security.certificates import CertificateAuthority
from support.security.sasl_wire import sasl_settings
from support.security.signed_tokens import claims, issuer_settings, signed

PASSWORD = "a password"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="sasl_plaintext", users={"alice": PASSWORD, "bob": "other"}) as broker:
        yield broker


def client_settings(broker: Broker) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
    }


@pytest.fixture
def console(broker: Broker) -> Iterator[ServedConsole]:
    with served(client_settings(broker)) as console:
        yield console


def test_pages_need_a_login_and_return_to_where_the_visitor_was_going(
    console: ServedConsole,
) -> None:
    visitor = console.visitor()
    reply = visitor.get("/topics?q=a")
    assert reply.status == 303
    assert reply.headers["location"] == "/login?next=/topics%3Fq%3Da"
    visitor.get("/login")
    before = dict(visitor.cookies)
    form = {"user": "alice", "secret": PASSWORD, "next": "/topics?q=a"}
    reply = visitor.post("/login", form)
    assert reply.status == 303, reply.text
    assert reply.headers["location"] == "/topics?q=a"
    assert visitor.cookies != before, "the id of the login form must not become a session"
    page = visitor.get("/topics")
    assert page.status == 200
    assert "alice" in page.text
    assert PASSWORD not in page.text + str(visitor.cookies)


def test_the_session_of_the_login_form_opens_no_page(console: ServedConsole) -> None:
    visitor = console.visitor()
    visitor.get("/login")
    assert visitor.cookies
    assert visitor.get("/topics").status == 303
    assert visitor.post("/topics", {"name": "x"}).status == 303
    assert visitor.get("/nope").status == 404


def test_a_logout_ends_the_session_at_the_server(console: ServedConsole) -> None:
    visitor = console.visitor()
    visitor.get("/login")
    visitor.post("/login", {"user": "alice", "secret": PASSWORD})
    visitor.get("/")
    stolen = dict(visitor.cookies)
    assert visitor.post("/logout").headers["location"] == "/login"
    visitor.cookies = stolen
    assert visitor.get("/").status == 303


def test_wrong_passwords_are_refused_and_then_limited(console: ServedConsole) -> None:
    visitor = console.visitor()
    visitor.get("/login")
    for _ in range(5):
        reply = visitor.post("/login", {"user": "alice", "secret": "guess"})
        assert reply.status == 403
        assert "refused" in reply.text
        assert "guess" not in reply.text
    limited = visitor.post("/login", {"user": "alice", "secret": PASSWORD})
    assert limited.status == 429
    assert int(limited.headers["retry-after"]) >= 1


@pytest.mark.parametrize("target", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_a_login_never_leads_to_another_site(console: ServedConsole, target: str) -> None:
    visitor = console.visitor()
    visitor.get("/login")
    form = {"user": "alice", "secret": PASSWORD, "next": target}
    assert visitor.post("/login", form).headers["location"] == "/"


def test_credentials_of_the_settings_need_the_access_token(broker: Broker) -> None:
    settings = {
        **client_settings(broker),
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }
    with served(settings) as console:
        visitor = console.visitor()
        assert visitor.get("/").status == 303
        assert visitor.get("/login?token=guess").status == 403
        token = re.search(r"token=(\S+)", console.address)
        assert token is not None
        assert visitor.get(f"/login?token={token[1]}").status == 303
        assert visitor.get("/").status == 200


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a static PLAIN user and OAUTHBEARER."""
    settings = {
        **sasl_settings("OAUTHBEARER"),
        **issuer_settings(tmp_path_factory.mktemp("issuer")),
    }
    with Broker(settings=settings) as broker:
        yield broker


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"mechanism": "PLAIN", "user": "admin", "secret": "admin-secret"}, 303),
        ({"mechanism": "OAUTHBEARER", "secret": signed(claims("dora"))}, 303),
        ({"mechanism": "OAUTHBEARER", "secret": signed(claims("dora", iss="other"))}, 403),
        ({"mechanism": "SCRAM-SHA-256", "user": "admin", "secret": "admin-secret"}, 403),
        ({"mechanism": "PLAIN", "user": "admin"}, 400),
    ],
)
def test_each_mechanism_can_log_in(mixed: Broker, form: dict[str, str], status: int) -> None:
    settings = {
        "bootstrap.servers": mixed.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
    }
    with served(settings) as console:
        visitor = console.visitor()
        assert "OAUTHBEARER" in visitor.get("/login").text
        assert visitor.post("/login", form).status == status
        assert visitor.get("/topics").status == (200 if status == 303 else 303)


def test_with_tls_the_cookie_is_bound_to_the_host_and_to_https(
    broker: Broker, authority: CertificateAuthority
) -> None:
    issued = authority.issue("console")
    files = {"certificate": str(issued.certificate_file), "key": str(issued.key_file)}
    with served(client_settings(broker), **files) as console:
        address = urlsplit(console.address)
        assert address.scheme == "https"
        trusted = ssl.create_default_context(cafile=authority.ca_file)
        connection = HTTPSConnection(address.hostname or "", address.port, context=trusted)
        connection.request("GET", "/login")
        response = connection.getresponse()
        response.read()
        cookie = response.headers["Set-Cookie"]
        assert cookie.startswith("__Host-headrace=")
        assert "Secure" in cookie
        assert "max-age" in response.headers["Strict-Transport-Security"]
        connection.close()
