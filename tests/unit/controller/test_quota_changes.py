"""AlterClientQuotas changes the entities without an error, with Kafka's checks."""

from collections.abc import Sequence

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ClientQuotaChanged
from headrace.controller.quota_changes import QuotaAlteration, QuotaOp, alter_client_quotas
from headrace.protocol.errors import ErrorCode
from headrace.security.quotas.client_quota import QuotaEntity

IMAGE = MetadataImage()
ALICE = [("user", "alice")]
ADDRESS = [("ip", "10.0.0.1")]
BYTES, PERCENT = QuotaOp("producer_byte_rate", 1000.0), QuotaOp("request_percentage", 12.5)
CONNECTIONS = QuotaOp("connection_creation_rate", 5.0)


def error_of(entity: Sequence[tuple[str, str | None]], *ops: QuotaOp) -> str | None:
    """The message of a refusal, which changes nothing; None if the change is accepted."""
    result = alter_client_quotas(IMAGE, [QuotaAlteration(entity, ops)])
    (altered,) = result.results
    if altered.error.code == ErrorCode.NONE:
        return None
    assert altered.error.code == ErrorCode.INVALID_REQUEST
    assert not result.records
    return altered.error.message


def test_limits_are_set_changed_and_removed() -> None:
    entity = QuotaEntity((("client-id", "app"), ("user", "alice")))
    asked: list[tuple[str, str | None]] = [("user", "alice"), ("client-id", "app")]
    first = alter_client_quotas(IMAGE, [QuotaAlteration(asked, [BYTES, PERCENT])])
    assert first.records == (
        ClientQuotaChanged(entity, "producer_byte_rate", 1000.0),
        ClientQuotaChanged(entity, "request_percentage", 12.5),
    )
    image = IMAGE.apply(first.records)
    ops = [QuotaOp("producer_byte_rate", None), PERCENT, QuotaOp("consumer_byte_rate", None)]
    second = alter_client_quotas(image, [QuotaAlteration(asked, ops)])
    assert second.records == (ClientQuotaChanged(entity, "producer_byte_rate", None),)
    assert image.apply(second.records).quotas == {entity: {"request_percentage": 12.5}}


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ([], "Invalid empty client quota entity"),
        ([("user", "")], "Empty user not supported"),
        ([("planet", "mars")], "Unhandled client quota entity type: planet"),
        ([("user", "a"), ("user", "b")], "duplicate entity entry user"),
        ([("ip", "10.0.0.1"), ("user", "a")], "IP entity should not be combined"),
        ([("ip", None), ("client-id", None)], "IP entity should not be combined"),
    ],
)
def test_an_invalid_entity_is_refused(entity: list[tuple[str, str | None]], message: str) -> None:
    assert message in (error_of(entity, BYTES) or "")


@pytest.mark.parametrize("name", ["localhost", "10.0.0", "10.0.0.0/8", "no such"])
def test_an_address_must_be_an_ip_address(name: str) -> None:
    assert "not a valid IP address" in (error_of([("ip", name)], CONNECTIONS) or "")


@pytest.mark.parametrize("name", [None, "10.0.0.1", "::1"])
def test_addresses_have_a_connection_creation_rate(name: str | None) -> None:
    assert error_of([("ip", name)], CONNECTIONS) is None


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        (ALICE, "connection_creation_rate", 1.0, "Invalid configuration key connection_cre"),
        (ALICE, "burst", 1.0, "Invalid configuration key burst"),
        (ADDRESS, "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        (ALICE, "producer_byte_rate", 0.0, "must be greater than 0"),
        (ALICE, "consumer_byte_rate", -1.0, "must be greater than 0"),
        (ALICE, "request_percentage", float("nan"), "must be greater than 0"),
        (ALICE, "request_percentage", float("inf"), "too large for a DOUBLE"),
        (ALICE, "producer_byte_rate", 1.5, "cannot be a fractional value"),
        (ALICE, "producer_byte_rate", 1e19, "too large for a LONG"),
        (ADDRESS, "connection_creation_rate", 1.5, "cannot be a fractional value"),
        (ADDRESS, "connection_creation_rate", 2.0**31, "too large for an INT"),
    ],
)
def test_an_invalid_limit_is_refused(
    entity: list[tuple[str, str | None]], key: str, value: float, message: str
) -> None:
    assert message in (error_of(entity, QuotaOp(key, value)) or "")


@pytest.mark.parametrize("key", ["request_percentage", "controller_mutation_rate"])
def test_a_percentage_and_a_mutation_rate_may_be_fractions(key: str) -> None:
    assert error_of(ALICE, QuotaOp(key, 0.01)) is None


def test_a_key_that_is_set_twice_is_refused() -> None:
    message = error_of(ALICE, BYTES, QuotaOp("producer_byte_rate", None))
    assert message == (
        "Duplicate quota key producer_byte_rate not updating quota for this entity "
        "ClientQuotaEntity(entries={user=alice})"
    )


def test_an_entity_that_is_named_twice_does_not_change_and_others_do() -> None:
    pair: list[tuple[str, str | None]] = [("user", "a"), ("client-id", "b")]
    result = alter_client_quotas(
        IMAGE,
        [
            QuotaAlteration(pair, [BYTES]),
            QuotaAlteration(ALICE, [BYTES]),
            QuotaAlteration(pair[::-1], [PERCENT]),
            QuotaAlteration([("ip", "::ffff:10.0.0.1")], [CONNECTIONS]),
            QuotaAlteration(ADDRESS, [CONNECTIONS]),
        ],
    )
    codes = [altered.error.code for altered in result.results]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert [
        record.entity.parts for record in result.records if isinstance(record, ClientQuotaChanged)
    ] == [(("user", "alice"),)]
