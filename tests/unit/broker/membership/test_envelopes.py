"""Envelopes: what one broker wraps, another unwraps; nothing else is accepted."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from headrace.broker.membership.envelopes import (
    Forwarded,
    InvalidEnvelope,
    unwrap_request,
    unwrap_response,
    wrap_request,
    wrap_response,
)
from headrace.broker.network.api_handlers import FORWARDED
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.envelope import EnvelopeRequest
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.security.principal import Principal, user
from headrace.security.session import Session

ALICE = Session(
    Principal("User", "alice", token_authenticated=True),
    "2001:db8::1",
    "CLIENTS",
    "SASL_PLAINTEXT",
    "a-token",
)
SPEC = APIS[ApiKey.CREATE_TOPICS]
REQUEST = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=3)])


def _envelope(version: int = SPEC.max_version, session: Session = ALICE) -> EnvelopeRequest:
    return wrap_request(SPEC, REQUEST, version, "a-client", session)


def _sent(envelope: EnvelopeRequest) -> Forwarded:
    return unwrap_request(EnvelopeRequest.decode(envelope.encode(0), 0))


@pytest.mark.parametrize("version", range(SPEC.min_version, SPEC.max_version + 1))
def test_the_controller_sees_the_request_and_its_client(version: int) -> None:
    spec, context, request = _sent(_envelope(version))
    assert (spec, context.version, request) == (SPEC, version, REQUEST)
    assert context.client_id == "a-client"
    assert context.session == ALICE
    assert not context.session.is_internal


def test_a_client_without_a_token_has_none() -> None:
    bob = Session(user("bob"), "127.0.0.1", "CLIENTS")
    assert _sent(_envelope(session=bob)).context.session == bob


@pytest.mark.parametrize("key", FORWARDED, ids=lambda key: key.name)
def test_every_forwarded_api_fits_into_an_envelope(key: ApiKey) -> None:
    spec = APIS[key]
    for version in range(spec.min_version, spec.max_version + 1):
        request = spec.request()
        forwarded = _sent(wrap_request(spec, request, version, "", ALICE))
        assert (forwarded.spec, forwarded.request) == (spec, request)
        answer = wrap_response(forwarded, spec.response())
        assert answer.response_data is not None
        assert unwrap_response(spec, version, answer.response_data) == spec.response()


def test_a_response_keeps_its_error() -> None:
    response = CreateTopicsResponse()
    answer = wrap_response(_sent(_envelope()), response)
    assert answer.error_code == ErrorCode.NONE


def _no_principal(envelope: EnvelopeRequest) -> None:
    envelope.request_principal = None


def _cut_principal(envelope: EnvelopeRequest) -> None:
    assert envelope.request_principal is not None
    envelope.request_principal = envelope.request_principal[:-1]


def _new_principal_version(envelope: EnvelopeRequest) -> None:
    assert envelope.request_principal is not None
    envelope.request_principal = b"\x00\x01" + envelope.request_principal[2:]


def _bad_address(envelope: EnvelopeRequest) -> None:
    envelope.client_host_address = b"\x01\x02\x03"


def _unknown_api(envelope: EnvelopeRequest) -> None:
    envelope.request_data = b"\x7f\xff" + envelope.request_data[2:]


def _unknown_version(envelope: EnvelopeRequest) -> None:
    envelope.request_data = envelope.request_data[:2] + b"\x7f\xff" + envelope.request_data[4:]


def _cut_request(envelope: EnvelopeRequest) -> None:
    envelope.request_data = envelope.request_data[:-4]


def _another_api(envelope: EnvelopeRequest) -> None:
    spec = APIS[ApiKey.METADATA]
    wrapped = wrap_request(spec, MetadataRequest(), spec.max_version, "", ALICE)
    envelope.request_data = wrapped.request_data


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_no_principal, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (_cut_principal, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (_new_principal_version, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (_bad_address, ErrorCode.INVALID_REQUEST),
        (_unknown_api, ErrorCode.UNSUPPORTED_VERSION),
        (_unknown_version, ErrorCode.UNSUPPORTED_VERSION),
        (_cut_request, ErrorCode.UNSUPPORTED_VERSION),
        (_another_api, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_envelope_is_refused(
    damage: Callable[[EnvelopeRequest], None], code: ErrorCode
) -> None:
    envelope = _envelope()
    damage(envelope)
    with pytest.raises(InvalidEnvelope) as refused:
        unwrap_request(envelope)
    assert refused.value.code is code


def test_an_envelope_in_an_envelope_is_refused() -> None:
    spec = APIS[ApiKey.ENVELOPE]
    nested = wrap_request(spec, _envelope(), 0, "", ALICE)
    with pytest.raises(InvalidEnvelope):
        unwrap_request(nested)


def test_hostile_bytes_are_refused_or_read() -> None:
    """No other exception: it would be an internal error of the controller."""
    chooser = Random(7)
    whole = _envelope()
    for _ in range(2000):
        data, principal = bytearray(whole.request_data), bytearray(whole.request_principal or b"")
        for target in (data, principal):
            for _ in range(chooser.randrange(4)):
                target[chooser.randrange(len(target))] = chooser.choice((0, 1, 127, 128, 255))
        damaged = EnvelopeRequest(
            request_data=bytes(data[: chooser.randrange(len(data) + 1)]),
            request_principal=bytes(principal),
            client_host_address=chooser.randbytes(4),
        )
        with suppress(InvalidEnvelope):
            unwrap_request(damaged)
