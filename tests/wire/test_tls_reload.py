"""New certificates without a restart: live connections stay, and a bad store changes nothing."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.maintenance.periodic_tasks import TLS_CHECK_S
from headrace.cluster.resources import ConfigResourceType
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from headrace.testing import Broker, VirtualClock
from support.security.certificates import CertificateAuthority, Issued
from support.security.tls_wire import TlsWire, client_context

PREFIX = "listener.name.ssl."
SECRET = "encoder secret"


class ReloadingBroker:
    """A broker whose key store is a file that the test replaces."""

    def __init__(self, broker: Broker, authority: CertificateAuthority, store: Path) -> None:
        self._broker = broker
        self._context = client_context(authority)
        self.store = store

    @property
    def port(self) -> int:
        node = self._broker.node
        assert node is not None
        return node.endpoints[0].port

    def connect(self) -> TlsWire:
        return TlsWire(self.port, self._context)

    def shown(self) -> bytes:
        """The certificate that a new client sees."""
        with self.connect() as wire:
            return wire.certificate

    def replace_store(self, issued: Issued) -> None:
        new = self.store.with_suffix(".new")
        shutil.copy(issued.keystore_file, new)
        new.rename(self.store)

    def alter(self, values: dict[str, str]) -> IncrementalAlterConfigsAlterConfigsResourceResponse:
        """The response for settings of the listener."""
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=ConfigResourceType.BROKER,
            resource_name="1",
            configs=[
                IncrementalAlterConfigsAlterableConfig(name=PREFIX + name, value=text)
                for name, text in values.items()
            ],
        )
        with self.connect() as wire:
            answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return answer.responses[0]


@pytest.fixture
def first(authority: CertificateAuthority) -> Issued:
    return authority.issue("broker")


@pytest.fixture
def broker(
    tmp_path: Path, authority: CertificateAuthority, first: Issued
) -> Iterator[ReloadingBroker]:
    store = tmp_path / "keystore.pem"
    shutil.copy(first.keystore_file, store)
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "password.encoder.secret": SECRET,
        PREFIX + "ssl.keystore.location": str(store),
    }
    with Broker(settings=settings) as made:
        yield ReloadingBroker(made, authority, store)


def test_setting_the_same_location_again_reads_a_changed_file(
    broker: ReloadingBroker, authority: CertificateAuthority, first: Issued
) -> None:
    second = authority.issue("broker")
    with broker.connect() as live:
        assert live.certificate == first.der
        broker.replace_store(second)
        response = broker.alter({"ssl.keystore.location": str(broker.store)})
        assert response.error_code == ErrorCode.NONE
        assert broker.shown() == second.der
        live.ask(ApiVersionsRequest(), 0)  # an open connection is not affected


def test_inline_stores_replace_a_file(
    broker: ReloadingBroker, authority: CertificateAuthority
) -> None:
    second = authority.issue("broker")
    values = {
        "ssl.keystore.location": "",
        "ssl.keystore.key": second.encrypted_key("hush"),
        "ssl.keystore.certificate.chain": second.chain.replace("\n", " "),
        "ssl.key.password": "hush",
    }
    assert broker.alter(values).error_code == ErrorCode.NONE
    assert broker.shown() == second.der


def test_a_bad_store_is_refused_and_the_current_one_stays(
    broker: ReloadingBroker, tmp_path: Path, first: Issued
) -> None:
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("not a store")
    response = broker.alter({"ssl.keystore.location": str(damaged)})
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert str(damaged) in (response.error_message or "")
    assert broker.shown() == first.der


@pytest.mark.parametrize(
    ("replaced", "by", "password"),
    [("-----\n", "-----\né", "hush"), ("", "", "p" * 2000)],
    ids=["not ASCII", "long password"],
)
def test_an_inline_store_that_openssl_cannot_take_is_refused(
    broker: ReloadingBroker,
    authority: CertificateAuthority,
    first: Issued,
    replaced: str,
    by: str,
    password: str,
) -> None:
    second = authority.issue("broker")
    values = {
        "ssl.keystore.location": "",
        "ssl.keystore.key": second.encrypted_key("hush").replace(replaced, by, 1),
        "ssl.keystore.certificate.chain": second.chain,
        "ssl.key.password": password,
    }
    response = broker.alter(values)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "cannot use the key store" in (response.error_message or "")
    assert broker.shown() == first.der


@pytest.mark.parametrize(
    ("name", "sans", "words"),
    [
        ("another", ("localhost", "127.0.0.1", "::1"), "subject"),
        ("broker", ("127.0.0.1",), "host names"),
    ],
)
def test_a_certificate_of_another_owner_is_refused(
    broker: ReloadingBroker,
    authority: CertificateAuthority,
    first: Issued,
    name: str,
    sans: tuple[str, ...],
    words: str,
) -> None:
    other = authority.issue(name, sans=sans)
    response = broker.alter({"ssl.keystore.location": str(other.keystore_file)})
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert words in (response.error_message or "")
    assert broker.shown() == first.der


def test_the_same_location_with_a_damaged_file_is_refused(
    broker: ReloadingBroker, first: Issued
) -> None:
    broker.store.write_text("damaged")
    response = broker.alter({"ssl.keystore.location": str(broker.store)})
    assert response.error_code == ErrorCode.INVALID_REQUEST
    # A listener that the request does not name is not read.
    assert broker.alter({"max.connections": "1000"}).error_code == ErrorCode.NONE
    assert broker.shown() == first.der


def test_a_setting_other_than_the_stores_of_a_running_listener_is_read_only(
    broker: ReloadingBroker,
) -> None:
    response = broker.alter({"ssl.client.auth": "required"})
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "existing listener" in (response.error_message or "")


def test_a_changed_file_is_noticed(
    tmp_path: Path, authority: CertificateAuthority, first: Issued
) -> None:
    second, store = authority.issue("broker"), tmp_path / "keystore.pem"
    shutil.copy(first.keystore_file, store)
    settings = {"listeners": "SSL://127.0.0.1:0", PREFIX + "ssl.keystore.location": str(store)}
    with Broker(settings=settings, clock=VirtualClock()) as made:
        broker = ReloadingBroker(made, authority, store)
        broker.replace_store(second)
        assert broker.shown() == first.der
        made.clock.advance(TLS_CHECK_S)
        assert broker.shown() == second.der
