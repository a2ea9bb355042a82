"""Delegation tokens over the wire: who may create, see, renew and expire them, and their end."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headrace.cluster.metadata_records import AclCreated
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headrace.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headrace.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headrace.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from headrace.security.principal import ANONYMOUS, Principal, user
from headrace.security.session import Session
from headrace.security.tokens.token_hmac import token_hmac
from headrace.testing import Broker, VirtualClock
from support.security.access import change_session
from support.wire.connection import Wire

SECRET_KEY = "the same on every broker"
SETTINGS = {
    "delegation.token.secret.key": SECRET_KEY,
    "delegation.token.max.lifetime.ms": 100_000,
    "delegation.token.expiry.time.ms": 10_000,
    "delegation.token.expiry.check.interval.ms": 60_000,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
ALICE, BOB, CAROL, ADMIN = map(user, ("alice", "bob", "carol", "admin"))

Connect = Callable[[Principal], Wire]


def act_as(
    broker: Broker,
    wire: Wire,
    principal: Principal,
    *,
    protocol: str = "SASL_PLAINTEXT",
    token_id: str | None = None,
) -> None:
    """From now on the requests of `wire` act for `principal`."""

    def logged_in(session: Session) -> Session:
        return Session(principal, session.host, session.listener, protocol, token_id)

    change_session(broker, wire, logged_in)


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(settings=SETTINGS, clock=VirtualClock()) as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Broker:
    """Without the tokens of other tests: all of them have expired and are removed."""
    shared.clock.advance(3_600)
    return shared


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    """Opens connections that are logged in as a user."""
    opened: list[Wire] = []

    def open_as(principal: Principal) -> Wire:
        wire = Wire(broker.bootstrap_servers)
        opened.append(wire)
        act_as(broker, wire, principal)
        return wire

    yield open_as
    for wire in opened:
        wire.close()


def create(
    wire: Wire,
    *renewers: Principal,
    owner: Principal | None = None,
    lifetime_ms: int = -1,
    version: int = 3,
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        renewers=[
            CreatableRenewers(principal_type=each.type, principal_name=each.name)
            for each in renewers
        ],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type = owner.type
        request.owner_principal_name = owner.name
    return wire.call(request, CreateDelegationTokenResponse, version)


def described(wire: Wire, *owners: Principal, version: int = 3) -> list[DescribedDelegationToken]:
    named = [
        DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name)
        for each in owners
    ]
    request = DescribeDelegationTokenRequest(owners=named or None)
    response = wire.call(request, DescribeDelegationTokenResponse, version)
    assert response.error_code == ErrorCode.NONE
    return response.tokens


def renew(
    wire: Wire, hmac: bytes, period_ms: int = -1, *, version: int = 2
) -> RenewDelegationTokenResponse:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return wire.call(request, RenewDelegationTokenResponse, version)


def expire(
    wire: Wire, hmac: bytes, period_ms: int = -1, *, version: int = 2
) -> ExpireDelegationTokenResponse:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return wire.call(request, ExpireDelegationTokenResponse, version)


def allow(
    broker: Broker, who: Principal, operation: AclOperation, pattern: ResourcePattern
) -> None:
    acl = Acl(pattern, str(who), "*", operation, AclPermission.ALLOW)
    node = broker.node
    assert node is not None
    recorded = asyncio.run_coroutine_threadsafe(
        node.metadata.record([AclCreated(acl)]),  # type: ignore[attr-defined]
        node.loop,
    )
    recorded.result(10)


# --- the whole life of a token ----------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_created_seen_renewed_and_expired(
    broker: Broker, connect: Connect, version: int
) -> None:
    wire = connect(ALICE)
    small = min(version, 2)
    created = create(wire, BOB, lifetime_ms=50_000, version=version)
    now_ms = broker.now_ms()
    assert created.error_code == ErrorCode.NONE
    assert (created.principal_type, created.principal_name) == ("User", "alice")
    assert created.token_requester_principal_name == ("alice" if version >= 3 else "")
    assert created.issue_timestamp_ms == now_ms
    assert created.expiry_timestamp_ms == now_ms + 10_000
    assert created.max_timestamp_ms == now_ms + 50_000
    assert created.hmac == token_hmac(SECRET_KEY.encode(), created.token_id)

    (seen,) = described(wire, version=version)
    assert (seen.token_id, seen.hmac) == (created.token_id, created.hmac)
    assert [each.principal_name for each in seen.renewers] == ["bob"]
    assert seen.token_requester_principal_name == ("alice" if version >= 3 else "")
    times = (seen.issue_timestamp, seen.expiry_timestamp, seen.max_timestamp)
    assert times == (now_ms, now_ms + 10_000, now_ms + 50_000)

    broker.clock.advance(5)
    renewed = renew(wire, created.hmac, version=small)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, now_ms + 15_000)
    expired = expire(wire, created.hmac, version=small)
    assert (expired.error_code, expired.expiry_timestamp_ms) == (0, now_ms + 5_000)
    assert described(wire, version=version) == []
    assert renew(wire, created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_is_for_another_owner_only_with_create_tokens_on_that_user(
    broker: Broker, connect: Connect
) -> None:
    wire = connect(BOB)
    refused = create(wire, owner=CAROL)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("carol", "bob")
    times = (refused.issue_timestamp_ms, refused.expiry_timestamp_ms, refused.max_timestamp_ms)
    assert (times, refused.token_id, refused.hmac) == ((-1, -1, -1), "", b"")
    resource = ResourcePattern(AclResourceType.USER, "User:carol")
    allow(broker, BOB, AclOperation.CREATE_TOKENS, resource)
    created = create(wire, owner=CAROL)
    assert created.error_code == ErrorCode.NONE
    assert (created.principal_name, created.token_requester_principal_name) == ("carol", "bob")
    # The requester sees the token and may not renew it.
    assert [each.token_id for each in described(wire)] == [created.token_id]
    assert renew(wire, created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(connect(CAROL), created.hmac).error_code == ErrorCode.NONE


def test_a_renewer_may_renew_and_expire_and_others_may_not(connect: Connect) -> None:
    created = create(connect(ALICE), BOB)
    for call in (renew, expire):
        refused = call(connect(CAROL), created.hmac)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(connect(BOB), created.hmac).error_code == ErrorCode.NONE
    assert expire(connect(BOB), created.hmac).error_code == ErrorCode.NONE


@pytest.mark.parametrize("call", [renew, expire])
def test_an_unknown_hmac_finds_no_token(
    connect: Connect, call: Callable[[Wire, bytes], RenewDelegationTokenResponse]
) -> None:
    wire = connect(ALICE)
    for hmac in (b"", b"x" * 64, create(wire).token_id.encode()):
        assert call(wire, hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_renewer_must_be_a_user(connect: Connect) -> None:
    refused = create(connect(ALICE), Principal("Group", "admins"))
    assert refused.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert refused.max_timestamp_ms == -1


# --- who sees a token -------------------------------------------------------------------------


def test_a_token_is_hidden_without_a_relation_to_it_or_a_right(
    broker: Broker, connect: Connect
) -> None:
    created = create(connect(ALICE), BOB)
    ids = [created.token_id]
    assert [each.token_id for each in described(connect(ALICE))] == ids
    assert [each.token_id for each in described(connect(BOB))] == ids
    assert [each.token_id for each in described(connect(ADMIN))] == ids
    assert described(connect(CAROL)) == []
    on_user = ResourcePattern(AclResourceType.USER, "User:alice")
    allow(broker, CAROL, AclOperation.DESCRIBE_TOKENS, on_user)
    assert [each.token_id for each in described(connect(CAROL))] == ids
    dave = user("dave")
    on_token = ResourcePattern(AclResourceType.DELEGATION_TOKEN, created.token_id)
    allow(broker, dave, AclOperation.DESCRIBE, on_token)
    assert [each.token_id for each in described(connect(dave))] == ids


def test_a_list_request_for_users_shows_the_tokens_that_they_own_request_or_renew(
    connect: Connect,
) -> None:
    own, renewable = create(connect(ALICE)), create(connect(BOB), ALICE)
    wire = connect(ADMIN)
    assert {each.token_id for each in described(wire, ALICE)} == {
        own.token_id,
        renewable.token_id,
    }
    assert [each.token_id for each in described(wire, BOB)] == [renewable.token_id]
    empty = DescribeDelegationTokenRequest(owners=[])
    assert wire.call(empty, DescribeDelegationTokenResponse).tokens == []


# --- refusals ---------------------------------------------------------------------------------

ALL_REQUESTS: list[Struct] = [
    CreateDelegationTokenRequest(),
    RenewDelegationTokenRequest(hmac=b"x"),
    ExpireDelegationTokenRequest(hmac=b"x"),
    DescribeDelegationTokenRequest(owners=None),
]


@pytest.mark.parametrize("request_", ALL_REQUESTS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize(
    ("principal", "protocol"),
    [
        (ALICE, "PLAINTEXT"),
        (ANONYMOUS, "SSL"),
        (ALICE._replace(token_authenticated=True), "SASL_SSL"),
    ],
)
def test_clients_without_an_own_login_may_not_send_token_requests(
    broker: Broker, connect: Connect, request_: Struct, principal: Principal, protocol: str
) -> None:
    wire = connect(principal)
    act_as(broker, wire, principal, protocol=protocol)
    response = wire.ask(request_)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # type: ignore[attr-defined]
    if not isinstance(response, DescribeDelegationTokenResponse):
        assert response.expiry_timestamp_ms == -1  # type: ignore[attr-defined]


@pytest.mark.parametrize("request_", ALL_REQUESTS, ids=lambda each: type(each).__name__)
def test_without_a_secret_key_delegation_tokens_are_off(request_: Struct) -> None:
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        act_as(broker, wire, ALICE)
        response = wire.ask(request_)
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED  # type: ignore[attr-defined]


# --- the end of a token -----------------------------------------------------------------------


def test_an_expired_token_cannot_be_renewed_and_is_removed_by_the_next_check(
    broker: Broker, connect: Connect
) -> None:
    wire = connect(ALICE)
    created = create(wire)
    broker.clock.advance(10.001)
    for refused in (renew(wire, created.hmac), expire(wire, created.hmac, 100)):
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert [each.token_id for each in described(wire)] == [created.token_id]
    broker.clock.advance(60)
    assert described(wire) == []


@pytest.mark.parametrize("end", ["removed", "expired"])
def test_sessions_of_a_token_end_within_a_second_after_it(
    broker: Broker, connect: Connect, end: str
) -> None:
    wire, ended, kept = connect(ALICE), connect(ALICE), connect(ALICE)
    created, other = create(wire), create(wire)
    principal = ALICE._replace(token_authenticated=True)
    act_as(broker, ended, principal, token_id=created.token_id)
    act_as(broker, kept, principal, token_id=other.token_id)
    expire(wire, created.hmac, -1 if end == "removed" else 1_000)
    broker.clock.advance(1 if end == "removed" else 2)
    assert ended.ends()
    assert kept.ask(DescribeDelegationTokenRequest())


def test_a_renewed_token_keeps_its_sessions(broker: Broker, connect: Connect) -> None:
    wire, session = connect(ALICE), connect(ALICE)
    created = create(wire)
    act_as(broker, session, ALICE, token_id=created.token_id)
    broker.clock.advance(9)
    renew(wire, created.hmac)
    broker.clock.advance(9)
    assert session.ask(DescribeDelegationTokenRequest())


def test_tokens_survive_a_restart() -> None:
    with Broker(settings=SETTINGS) as broker:
        with Wire(broker.bootstrap_servers) as wire:
            act_as(broker, wire, ALICE)
            created = create(wire, BOB)
        broker.restart()
        with Wire(broker.bootstrap_servers) as wire:
            act_as(broker, wire, ALICE)
            (found,) = described(wire)
            assert (found.token_id, found.hmac) == (created.token_id, created.hmac)
