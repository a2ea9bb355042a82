"""Security znodes have the paths and documents of Apache Kafka 3.9 in ZooKeeper mode."""

import hashlib
import hmac
import json
import traceback
from base64 import b64encode
from hashlib import pbkdf2_hmac
from pathlib import Path

import pytest

from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.metadata_records import (
    AclCreated,
    ClientQuotaChanged,
    DelegationTokenChanged,
    MetadataRecord,
    ScramCredentialChanged,
)
from headrace.cluster.metadata_store import CorruptStore, Elected, TooLarge
from headrace.cluster.resources import broker_resource
from headrace.cluster.stored_passwords import with_clear_passwords
from headrace.cluster.stores import security_znodes
from headrace.cluster.stores.multi_packing import pack_steps
from headrace.cluster.stores.znode_planner import ZnodePlanner
from headrace.cluster.stores.zookeeper_client import Create, Op, OpFailed, SetData
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.principal import Principal
from headrace.security.quotas.client_quota import CLIENT_ID, IP, USER, QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken
from headrace.testing.simulated_znodes import ZnodeTree
from support.brokers.security_records import CREDENTIAL, PREFIX_ACL, TOPIC_ACL
from support.brokers.znode_tables import new_tree, read_tree

ELECTED = Elected(1, 7, 0)
KAFKA_BROKER_ZNODES = Path(__file__).parents[3] / "data" / "kafka-3.9.2" / "security-znodes.json"

# As Apache Kafka 3.9 writes them; parents first.
KAFKA_ZNODES = {
    "/kafka-acl/Topic/orders": (
        '{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
        '"operation":"DescribeConfigs","host":"*"},{"principal":"User:*","permissionType":"Deny",'
        '"operation":"All","host":"10.0.0.1"}]}'
    ),
    "/kafka-acl/TransactionalId/*": (
        '{"version":1,"acls":[{"principal":"User:CN=a,O=b","permissionType":"Allow",'
        '"operation":"Write","host":"*"}]}'
    ),
    "/kafka-acl-extended/prefixed/Group/app-": (
        '{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
        '"operation":"Read","host":"*"}]}'
    ),
    "/config/users/CN%3Da%2CO%3Db%20%7E%2A": (
        '{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=a2V5,'
        'server_key=c2VydmVy,iterations=4096","producer_byte_rate":"1024"}}'
    ),
    "/config/users/bob": "",
    "/config/users/bob/clients": "",
    "/config/users/bob/clients/app": '{"version":1,"config":{"request_percentage":"12.5"}}',
    "/config/users/bob/clients/<default>": ('{"version":1,"config":{"consumer_byte_rate":"2048"}}'),
    "/config/users/<default>": '{"version":1,"config":{"controller_mutation_rate":"5.0"}}',
    "/config/clients/<default>": '{"version":1,"config":{"producer_byte_rate":"10"}}',
    "/config/ips/10.0.0.1": '{"version":1,"config":{"connection_creation_rate":"20"}}',
    "/delegation_token/tokens/tQxNYWvYTpm4wMg3cXPdkg": (
        '{"version":3,"owner":"User%3Aalice","tokenRequester":"User%3Aadmin",'
        '"renewers":["User%3Abob"],"issueTimestamp":1000,"maxTimestamp":3000,'
        '"expiryTimestamp":2000,"tokenId":"tQxNYWvYTpm4wMg3cXPdkg"}'
    ),
    "/delegation_token/tokens/older": (
        '{"version":2,"owner":"User%3Aalice","renewers":[],"issueTimestamp":1,"maxTimestamp":3,'
        '"expiryTimestamp":2,"tokenId":"older"}'
    ),
}


def user(name: str) -> Principal:
    return Principal("User", name)


def write(tree: ZnodeTree, *records: MetadataRecord) -> list[Op]:
    ops: list[Op] = []
    for each in pack_steps(ZnodePlanner(read_tree(tree), ELECTED).plan(records)):
        tree.write(each, session_id=0)
        ops += each
    return ops


def test_znodes_of_kafka_are_read() -> None:
    tree = new_tree()
    tree.write([Create(path, data.encode()) for path, data in KAFKA_ZNODES.items()], 0)
    image = read_tree(tree).image()
    orders = ResourcePattern(AclResourceType.TOPIC, "orders")
    anything = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "*")
    apps = ResourcePattern(AclResourceType.GROUP, "app-", PatternType.PREFIXED)
    allow, deny = AclPermission.ALLOW, AclPermission.DENY
    assert set(image.acls) == {
        Acl(orders, "User:alice", "*", AclOperation.DESCRIBE_CONFIGS, allow),
        Acl(orders, "User:*", "10.0.0.1", AclOperation.ALL, deny),
        Acl(anything, "User:CN=a,O=b", "*", AclOperation.WRITE, allow),
        Acl(apps, "User:alice", "*", AclOperation.READ, allow),
    }
    assert image.scram_credentials == {
        ("CN=a,O=b ~*", ScramMechanism.SCRAM_SHA_256): ScramCredential(
            b"salt", b"key", b"server", 4096
        )
    }
    assert image.quotas == {
        QuotaEntity(((USER, "CN=a,O=b ~*"),)): {"producer_byte_rate": 1024.0},
        QuotaEntity(((CLIENT_ID, "app"), (USER, "bob"))): {"request_percentage": 12.5},
        QuotaEntity(((CLIENT_ID, None), (USER, "bob"))): {"consumer_byte_rate": 2048.0},
        QuotaEntity(((USER, None),)): {"controller_mutation_rate": 5.0},
        QuotaEntity(((CLIENT_ID, None),)): {"producer_byte_rate": 10.0},
        QuotaEntity(((IP, "10.0.0.1"),)): {"connection_creation_rate": 20.0},
    }
    alice = user("alice")
    assert image.delegation_tokens == {
        "tQxNYWvYTpm4wMg3cXPdkg": DelegationToken(
            "tQxNYWvYTpm4wMg3cXPdkg", alice, user("admin"), (user("bob"),), 1000, 2000, 3000
        ),
        "older": DelegationToken("older", alice, alice, (), 1, 2, 3),
    }


def test_znodes_that_a_broker_of_kafka_wrote_are_read_and_changed() -> None:
    """tests/data/kafka-3.9.2/README.md says how they were made."""
    tree = kafka_tree()
    image = read_tree(tree).image()
    assert sorted(map(str, image.acls)) == [
        "ALLOW User:CN=a,O=b WRITE TRANSACTIONAL_ID:LITERAL:* from *",
        "ALLOW User:alice CREATE_TOKENS USER:LITERAL:User:bob from *",
        "ALLOW User:alice DESCRIBE_CONFIGS TOPIC:LITERAL:orders from *",
        "ALLOW User:alice IDEMPOTENT_WRITE CLUSTER:LITERAL:kafka-cluster from *",
        "ALLOW User:alice READ GROUP:PREFIXED:app- from *",
        "DENY User:* ALL TOPIC:LITERAL:orders from 10.0.0.1",
    ]
    for (name, mechanism), credential in image.scram_credentials.items():
        password = b"admin" if name == "admin" else b"hush"
        algorithm = mechanism.algorithm
        salted = pbkdf2_hmac(algorithm, password, credential.salt, credential.iterations)
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        assert hashlib.new(algorithm, client_key).digest() == credential.stored_key
        assert hmac.digest(salted, b"Server Key", algorithm) == credential.server_key
    assert [name for name, _ in image.scram_credentials] == ["CN=a,O=b ~*"] * 2 + ["admin"]
    assert len(image.quotas) == 6
    (token,) = image.delegation_tokens.values()
    assert (token.owner, token.renewers) == (user("admin"), (user("bob"),))
    static = {"password.encoder.secret": "the secret"}
    clear = with_clear_passwords(image.config(broker_resource(1)), static)
    assert list(clear.values()) == [
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ]
    write(tree, *records_between(image, MetadataImage()))
    left = {path for path in tree.nodes if path.count("/") > 2} - set(new_tree().nodes)
    assert {path for path in left if "change" not in path} == set()


def kafka_tree() -> ZnodeTree:
    tree = new_tree()
    for path, data in json.loads(KAFKA_BROKER_ZNODES.read_text()).items():
        if path not in tree.nodes:
            tree.write([Create(path, data.encode())], 0)
    return tree


def test_znodes_are_written_as_kafka_writes_them() -> None:
    kafka, ours = new_tree(), new_tree()
    kafka.write([Create(path, data.encode()) for path, data in KAFKA_ZNODES.items()], 0)
    image = read_tree(kafka).image()
    write(ours, *(AclCreated(acl) for acl in image.acls))
    for (name, mechanism), credential in image.scram_credentials.items():
        write(ours, ScramCredentialChanged(name, mechanism, credential))
    for entity, limits in image.quotas.items():
        write(ours, *(ClientQuotaChanged(entity, key, limit) for key, limit in limits.items()))
    write(ours, *map(DelegationTokenChanged, image.delegation_tokens.values()))
    written = {path: node.data.decode() for path, node in ours.nodes.items()}
    assert set(written) == set(kafka.nodes)
    for path, data in KAFKA_ZNODES.items():
        if data and path not in ("/delegation_token/tokens/older", "/config/users/<default>"):
            assert json.loads(written[path]) == json.loads(data), path


def test_all_acls_of_a_resource_are_one_write_of_one_znode() -> None:
    tree = new_tree()
    acls = [TOPIC_ACL._replace(principal=f"User:u{number}") for number in range(100)]
    ops = write(tree, *map(AclCreated, acls), AclCreated(PREFIX_ACL))
    assert [op.path for op in ops] == [
        "/kafka-acl/Topic/orders",
        "/kafka-acl-extended/prefixed/Group/app-",
    ]
    (op,) = write(tree, AclCreated(TOPIC_ACL), AclCreated(acls[0]))
    assert isinstance(op, SetData)
    assert len(json.loads(op.data)["acls"]) == 101


def test_config_keys_of_other_programs_stay() -> None:
    tree = new_tree()
    path = "/config/users/alice"
    tree.write([Create(path, b'{"version":1,"config":{"theirs":"1"}}')], 0)
    entity = QuotaEntity(((USER, "alice"),))
    write(tree, ClientQuotaChanged(entity, "producer_byte_rate", 2.5))
    assert json.loads(tree.nodes[path].data)["config"] == {
        "theirs": "1",
        "producer_byte_rate": "2.5",
    }
    write(tree, ClientQuotaChanged(entity, "producer_byte_rate", None))
    assert json.loads(tree.nodes[path].data)["config"] == {"theirs": "1"}


def test_an_entity_that_another_program_encoded_differently_is_changed_in_place() -> None:
    tree = new_tree()
    path = "/config/ips/::1"
    tree.write([Create(path, b'{"version":1,"config":{"connection_creation_rate":"1"}}')], 0)
    write(tree, ClientQuotaChanged(QuotaEntity(((IP, "::1"),)), "connection_creation_rate", 7.0))
    assert json.loads(tree.nodes[path].data)["config"] == {"connection_creation_rate": "7"}
    write(tree, ClientQuotaChanged(QuotaEntity(((IP, "::1"),)), "connection_creation_rate", None))
    assert not tree.nodes["/config/ips"].children


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/kafka-acl/Topic/t", '{"acls":[{"principal":"User:a"}]}'),
        (
            "/kafka-acl/Topic/t",
            '{"acls":[{"principal":"User:a","host":"*","operation":"Fly","permissionType":"Deny"}]}',
        ),
        ("/kafka-acl/Topic/t", "[]"),
        ("/config/users/u", '{"config":{"SCRAM-SHA-256":"salt=hush,iterations=x"}}'),
        ("/config/users/u", '{"config":{"SCRAM-SHA-512":"hush"}}'),
        ("/config/users/u", '{"config":{"producer_byte_rate":"fast"}}'),
        ("/delegation_token/tokens/t", '{"version":3,"owner":"alice"}'),
        ("/delegation_token/tokens/t", "hush"),
    ],
)
def test_an_invalid_znode_is_an_error_with_its_path_and_no_secret(path: str, data: str) -> None:
    tree = new_tree()
    tree.write([Create(path, data.encode())], 0)
    with pytest.raises(CorruptStore, match=path) as caught:
        read_tree(tree).image()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "child"),
    [("a b", "a%20b"), ("~*", "%7E%2A"), ("a/b", "a%2Fb"), ("ü", "%C3%BC"), (".", "%2E"),
     ("<default>", "%3Cdefault%3E"), (None, "<default>"), ("a+b", "a%2Bb"), ("a-b_c.d", "a-b_c.d")],
)  # fmt: skip
def test_names_of_entities_are_encoded_as_kafkas_sanitizer_does(
    name: str | None, child: str
) -> None:
    assert security_znodes.sanitize(name) == child
    assert security_znodes.desanitize(child) == name


def test_acls_that_do_not_fit_into_a_znode_are_refused_with_a_remedy() -> None:
    tree = new_tree()
    acls = [TOPIC_ACL._replace(principal=f"User:{number:0>200}") for number in range(5_000)]
    with pytest.raises(TooLarge, match=r"/kafka-acl/Topic/orders .* use prefixed ACLs"):
        write(tree, *map(AclCreated, acls))


def test_a_failed_write_of_credentials_shows_no_secret() -> None:
    tree = new_tree()
    planner = ZnodePlanner(read_tree(tree), ELECTED)
    record = ScramCredentialChanged("alice", ScramMechanism.SCRAM_SHA_256, CREDENTIAL)
    (ops,) = pack_steps(planner.plan([record]))
    tree.write(ops, session_id=0)
    with pytest.raises(OpFailed) as caught:
        tree.write(ops, session_id=0)  # the znode exists
    shown = "".join(traceback.format_exception(caught.value))
    assert "/config/users/alice" in shown
    for part in (CREDENTIAL.salt, CREDENTIAL.stored_key, CREDENTIAL.server_key):
        assert b64encode(part).decode() not in shown
        assert b64encode(part).decode() not in repr(planner.stored)
        assert repr(part) not in shown
