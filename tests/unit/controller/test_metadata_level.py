"""Records that a live broker of an older version cannot read are refused."""

from random import Random

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_record_format import decode, encode
from headrace.cluster.metadata_records import BrokerFenced, BrokerRegistered
from headrace.cluster.stores import znodes
from headrace.cluster.topology import METADATA_LEVEL, BrokerRegistration
from headrace.controller.acl_changes import create_acls, delete_acls
from headrace.controller.broker_fencing import Arrival, reconcile_brokers
from headrace.controller.leader_election import TopicRules
from headrace.controller.metadata_level import require_metadata_level
from headrace.controller.quota_changes import QuotaAlteration, QuotaOp, alter_client_quotas
from headrace.controller.result import ApiError, Refused
from headrace.controller.scram_changes import ScramUpsertion, alter_credentials
from headrace.controller.token_changes import NewToken, TokenLifetimes, create_token
from headrace.protocol.errors import ErrorCode
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_filter import AclFilter
from headrace.security.principal import user

ACL = Acl(
    ResourcePattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL),
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)
ALICE = ScramUpsertion("alice", 2, 4096, b"salt", bytes(64))
QUOTA = QuotaAlteration((("user", "alice"),), (QuotaOp("producer_byte_rate", 1000.0),))
TOKEN = NewToken(user("alice"), user("alice"), ())
LIFETIMES = TokenLifetimes(1000, 1000)


def image(*levels: int) -> MetadataImage:
    """Brokers 1, 2, ... with these levels."""
    brokers = [
        BrokerRegistration(id_, id_, (), metadata_level=level)
        for id_, level in enumerate(levels, start=1)
    ]
    return MetadataImage().apply([BrokerRegistered(each) for each in brokers])


def errors(now: MetadataImage) -> list[ApiError]:
    return [
        create_acls(now, [ACL]).results[0],
        alter_credentials(now, [], [ALICE]).results[0].error,
        alter_client_quotas(now, [QUOTA]).results[0].error,
        create_token(now, TOKEN, LIFETIMES, 0, Random(1)).results[0].error,
    ]


def test_security_records_are_refused_while_an_older_broker_is_live() -> None:
    found = errors(image(METADATA_LEVEL, 0, 0))
    assert {each.code for each in found} == {ErrorCode.UNSUPPORTED_VERSION}
    assert all("brokers 2, 3 run" in str(each.message) for each in found)


def test_they_are_allowed_when_all_brokers_are_new_or_the_older_ones_are_down() -> None:
    for now in (image(METADATA_LEVEL), image(METADATA_LEVEL, 0).apply([BrokerFenced(2)])):
        assert {each.code for each in errors(now)} == {ErrorCode.NONE}


def test_they_may_be_deleted_before_a_downgrade() -> None:
    now = image(METADATA_LEVEL)
    now = now.apply(create_acls(now, [ACL]).records)
    now = now.apply([BrokerRegistered(BrokerRegistration(2, 2, (), metadata_level=0))])
    result = delete_acls(now, [AclFilter()])
    assert list(result.results[0].acls) == [ACL]
    assert result.records


def test_the_error_names_one_broker() -> None:
    with pytest.raises(Refused, match="broker 2 runs a version that cannot read ACLs"):
        require_metadata_level(image(1, 0), 1, "ACLs")


def test_the_level_is_in_records_and_znodes_and_0_without_one() -> None:
    broker = BrokerRegistration(1, 7, (), metadata_level=METADATA_LEVEL)
    assert decode(encode(BrokerRegistered(broker))) == BrokerRegistered(broker)
    written = znodes.write_registration(broker, None, "", 0)
    assert znodes.read_registration(1, written, 7).broker == broker
    assert znodes.read_recorded_broker(1, znodes.write_recorded_broker(broker)) == broker
    older = written.replace(b',"metadata_level":%d' % METADATA_LEVEL, b"")
    assert older != written
    assert znodes.read_registration(1, older, 7).broker.metadata_level == 0


def test_a_new_controller_learns_levels_that_one_of_0_1_0_did_not_pass_on() -> None:
    before = image(0, 0)
    arrivals = {
        1: Arrival(BrokerRegistration(1, 1, (), metadata_level=METADATA_LEVEL)),
        2: Arrival(BrokerRegistration(2, 2, (), metadata_level=0)),
    }
    records = reconcile_brokers(before, lambda _: TopicRules(), arrivals)
    assert records == (BrokerRegistered(before.brokers[1]._replace(metadata_level=METADATA_LEVEL)),)
