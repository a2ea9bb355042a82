"""The audit log has each change of a user, a quota and a delegation token, and never a secret."""

import logging
from collections.abc import Iterator

import pytest

from headrace.log_formatters import AUDIT_LOGGER, TextFormatter
from headrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headrace.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from headrace.testing import Broker, VirtualClock
from support.security.sasl_wire import (
    SHA_256,
    log_in,
    log_in_with_scram,
    put_user,
    remove_user,
    sasl_settings,
)
from support.wire.connection import Wire
from support.wire.quotas import alter_quotas, alteration, set_quota

PASSWORD = "correct horse battery staple"
KEY = "the same on every broker"
BY_ADMIN = "principal=User:admin"
LISTENER = "listener=SASL_PLAINTEXT"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = sasl_settings("SCRAM-SHA-256", delegation__token__secret__key=KEY)
    with Broker(settings=settings, clock=VirtualClock()) as broker:
        yield broker


@pytest.fixture
def admin(broker: Broker, caplog: pytest.LogCaptureFixture) -> Iterator[Wire]:
    with caplog.at_level(logging.INFO, AUDIT_LOGGER), Wire(broker.bootstrap_servers) as wire:
        assert log_in(wire).error_code == 0
        caplog.clear()
        yield wire


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the audit log as operators see them, without time and level."""
    formatter = TextFormatter()
    audited = [each for each in caplog.records if each.name == AUDIT_LOGGER]
    return [formatter.format(each).split(" INFO ", 1)[1] for each in audited]


def test_changes_of_scram_users_are_logged_without_passwords(
    admin: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    put_user(admin, "alice", PASSWORD)
    remove_user(admin, "alice")
    where = f"host=127.0.0.1 api=AlterUserScramCredentials {LISTENER}"
    assert lines(caplog) == [
        f"set a SCRAM credential {BY_ADMIN} user=alice mechanism=SCRAM-SHA-256 {where}",
        f"deleted a SCRAM credential {BY_ADMIN} user=alice mechanism=SCRAM-SHA-256 {where}",
    ]


def test_changed_quotas_are_logged_and_unchanged_invalid_and_validated_ones_are_not(
    admin: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    entity = [("client-id", None), ("user", "alice")]
    set_quota(admin, entity, producer_byte_rate=1e6, consumer_byte_rate=2e6)
    set_quota(admin, entity, producer_byte_rate=1e6, consumer_byte_rate=None)
    alter_quotas(admin, alteration(entity, producer_byte_rate=5.0), validate_only=True)
    alter_quotas(admin, alteration(entity, producer_byte_rate=-5.0))
    where = f"host=127.0.0.1 api=AlterClientQuotas {LISTENER}"
    what = "entity=client-id:(default),user:alice"
    assert lines(caplog) == [
        f"set a quota {BY_ADMIN} {what} quota=producer_byte_rate value=1000000.0 {where}",
        f"set a quota {BY_ADMIN} {what} quota=consumer_byte_rate value=2000000.0 {where}",
        f"removed a quota {BY_ADMIN} {what} quota=consumer_byte_rate {where}",
    ]


def test_changes_of_delegation_tokens_are_logged_without_their_hmac(
    admin: Wire, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    put_user(admin, "bob", PASSWORD)
    with Wire(broker.bootstrap_servers) as wire:
        assert log_in_with_scram(wire, "bob", PASSWORD, SHA_256).error_code == 0
        caplog.clear()
        made = wire.call(CreateDelegationTokenRequest(renewers=[]), CreateDelegationTokenResponse)
        renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=5_000)
        assert wire.call(renew, RenewDelegationTokenResponse).error_code == 0
        for period_ms in (1_000, -1):
            end = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=period_ms)
            assert wire.call(end, ExpireDelegationTokenResponse).error_code == 0
    found, now_ms, id_ = lines(caplog), broker.now_ms(), made.token_id
    token = f"principal=User:bob id={id_}"
    owner = f"owner=User:bob renewers=- expiry_ms={made.expiry_timestamp_ms}"
    where = f"host=127.0.0.1 api={{}}DelegationToken {LISTENER}"
    assert found == [
        f"created a delegation token {token} {owner} {where.format('Create')}",
        f"renewed a delegation token {token} expiry_ms={now_ms + 5_000} {where.format('Renew')}",
        f"changed the expiry of a delegation token {token} expiry_ms={now_ms + 1_000} "
        + where.format("Expire"),
        f"removed a delegation token {token} expiry_ms={now_ms} {where.format('Expire')}",
    ]
