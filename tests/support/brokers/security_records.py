"""Metadata records of ACLs, SCRAM credentials, client quotas and delegation tokens: one example of
each kind, and strategies that generate many."""

from typing import Final, get_args

from hypothesis import strategies as st

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    AclCreated,
    AclDeleted,
    ClientQuotaChanged,
    DelegationTokenChanged,
    DelegationTokenRemoved,
    MetadataRecord,
    ScramCredentialChanged,
)
from headrace.cluster.stores.security_tables import SecurityRecord
from headrace.security.authorization.acl import (
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.principal import user
from headrace.security.quotas.client_quota import CLIENT_ID, DEFAULT, IP, USER, QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken

TOPIC_ACL: Final = Acl(
    ResourcePattern(AclResourceType.TOPIC, "orders"),
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)
PREFIX_ACL: Final = Acl(
    ResourcePattern(AclResourceType.GROUP, "app-", PatternType.PREFIXED),
    "User:CN=b,O=c",
    "10.0.0.1",
    AclOperation.ALL,
    AclPermission.DENY,
)
SECRET: Final = b"a secret of alice"
CREDENTIAL: Final = ScramCredential(SECRET + b":salt", SECRET + b":key", SECRET + b":server", 4096)
TOKEN: Final = DelegationToken(
    "token-1", user("alice"), user("bob"), (user("carol"), user("d:e")), 1, 2**40, 2**41
)
ALICE: Final = QuotaEntity(((USER, "alice"),))

SECURITY_RECORDS: Final[list[MetadataRecord]] = [
    AclCreated(TOPIC_ACL),
    AclCreated(PREFIX_ACL),
    ScramCredentialChanged("alice", ScramMechanism.SCRAM_SHA_256, CREDENTIAL),
    ScramCredentialChanged("alice", ScramMechanism.SCRAM_SHA_512, CREDENTIAL),
    ClientQuotaChanged(ALICE, "producer_byte_rate", 1024.5),
    ClientQuotaChanged(QuotaEntity(((CLIENT_ID, DEFAULT), (USER, "ü/~"))), "request_percentage", 5),
    ClientQuotaChanged(QuotaEntity(((IP, DEFAULT),)), "connection_creation_rate", 10.0),
    DelegationTokenChanged(TOKEN),
]
SECURITY_REMOVALS: Final[list[MetadataRecord]] = [
    AclDeleted(TOPIC_ACL),
    ScramCredentialChanged("alice", ScramMechanism.SCRAM_SHA_256, None),
    ClientQuotaChanged(ALICE, "producer_byte_rate", None),
    DelegationTokenRemoved(TOKEN.token_id),
]
SECURITY_TYPES: Final = get_args(SecurityRecord)

# A small choice, so that records meet in one resource, user, entity or token.
_RESOURCES: Final = st.sampled_from(
    [
        ResourcePattern(AclResourceType.TOPIC, "a"),
        ResourcePattern(AclResourceType.TOPIC, "*"),
        ResourcePattern(AclResourceType.TOPIC, "a", PatternType.PREFIXED),
        ResourcePattern(AclResourceType.GROUP, "ü %"),
        ResourcePattern(AclResourceType.GROUP, "ü %", PatternType.PREFIXED),
        ResourcePattern(AclResourceType.CLUSTER, "kafka-cluster"),
        ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "tx"),
        ResourcePattern(AclResourceType.DELEGATION_TOKEN, "token-1"),
        ResourcePattern(AclResourceType.USER, "User:alice"),
    ]
)
NAMES: Final = st.sampled_from(["alice", "b/c", "d~e", ".", "..", "CN=x,O=ü y", "%41", "*", "<x>"])
_USER_NAMES: Final = st.one_of(NAMES, st.text(min_size=1, max_size=4)).filter(
    lambda name: name != "<default>"
)
_ENTITY_NAMES: Final = st.one_of(st.none(), _USER_NAMES)
_BYTES: Final = st.binary(min_size=1, max_size=16)
_PRINCIPALS: Final = NAMES.map(user)
_TIMES: Final = st.integers(-1, 2**63 - 1)


@st.composite
def acls(draw: st.DrawFn) -> Acl:
    pattern = draw(_RESOURCES)
    operations = sorted({AclOperation.ALL, *SUPPORTED_OPERATIONS[pattern.type]})
    return Acl(
        pattern,
        draw(st.sampled_from(["User:*", "User:alice", "User:CN=b,O=c"])),
        draw(st.sampled_from(["*", "10.0.0.1", "::1"])),
        draw(st.sampled_from(operations)),
        draw(st.sampled_from([AclPermission.ALLOW, AclPermission.DENY])),
    )


CREDENTIALS: Final = st.builds(ScramCredential, _BYTES, _BYTES, _BYTES, st.integers(4096, 16384))
TOKENS: Final = st.builds(
    DelegationToken,
    st.sampled_from(["token-1", "A_b-9"]),
    _PRINCIPALS,
    _PRINCIPALS,
    st.lists(_PRINCIPALS, max_size=2).map(tuple),
    _TIMES,
    _TIMES,
    _TIMES,
)


@st.composite
def quotas(draw: st.DrawFn) -> ClientQuotaChanged:
    types = draw(st.sampled_from([(USER,), (CLIENT_ID,), (CLIENT_ID, USER), (IP,)]))
    entity = QuotaEntity(tuple((type_, draw(_ENTITY_NAMES)) for type_ in types))
    key = "connection_creation_rate" if types == (IP,) else "producer_byte_rate"
    limits = st.floats(0.001, 1e18, allow_nan=False) | st.integers(1, 2**40).map(float)
    return ClientQuotaChanged(entity, key, draw(st.none() | limits))


def security_record_for(draw: st.DrawFn, image: MetadataImage, kind: type) -> MetadataRecord | None:
    """A record of the kind; a removal often removes something that the image has."""
    if kind is AclDeleted:
        return AclDeleted(draw(st.sampled_from(list(image.acls)) if image.acls else acls()))
    if kind is AclCreated:
        return AclCreated(draw(acls()))
    if kind is ScramCredentialChanged:
        name, mechanism = draw(
            st.sampled_from(list(image.scram_credentials))
            if draw(st.booleans()) and image.scram_credentials
            else st.tuples(_USER_NAMES, st.sampled_from(list(ScramMechanism)[1:]))
        )
        return ScramCredentialChanged(name, mechanism, draw(st.none() | CREDENTIALS))
    if kind is ClientQuotaChanged:
        if draw(st.booleans()) and image.quotas:
            entity = draw(st.sampled_from(list(image.quotas)))
            return ClientQuotaChanged(entity, next(iter(image.quotas[entity])), None)
        return draw(quotas())
    if kind is DelegationTokenChanged:
        return DelegationTokenChanged(draw(TOKENS))
    tokens = list(image.delegation_tokens)
    return DelegationTokenRemoved(draw(st.sampled_from(tokens))) if tokens else None
