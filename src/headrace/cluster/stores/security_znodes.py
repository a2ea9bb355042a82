"""The znodes of ACLs, users, quotas and delegation tokens, in Kafka's formats. Pure.

`/kafka-acl/Topic/orders` holds all ACLs of one resource pattern, and `/config/users/alice` both the
SCRAM credentials and the quotas of a user. Error messages contain paths, never the data.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, unquote

from headrace.cluster.metadata_store import CorruptStore
from headrace.cluster.stores.znode_paths import (
    ACL_ROOTS,
    ACL_TYPES,
    CLIENT_QUOTAS,
    DEFAULT_ENTITY,
    DELEGATION_TOKENS,
    IP_QUOTAS,
    USERS,
)
from headrace.cluster.stores.znodes import read_config, read_json, write_json
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
)
from headrace.security.principal import parse_principal
from headrace.security.quotas.client_quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from headrace.security.sasl.scram_credential import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
)
from headrace.security.tokens.delegation_token import DelegationToken

_ACL_VERSION: Final = 1
_TOKEN_VERSION: Final = 3
_VERSION_WITH_REQUESTER: Final = 3

_QUOTA_KEYS: Final = frozenset(
    {
        PRODUCER_BYTE_RATE,
        CONSUMER_BYTE_RATE,
        REQUEST_PERCENTAGE,
        CONTROLLER_MUTATION_RATE,
        CONNECTION_CREATION_RATE,
    }
)


def _pascal_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


_OPERATIONS: Final = {_pascal_case(each.name): each for each in list(AclOperation)[2:]}
_PERMISSIONS: Final = {_pascal_case(each.name): each for each in list(AclPermission)[2:]}
_OPERATION_NAMES: Final = {operation: name for name, operation in _OPERATIONS.items()}
_PERMISSION_NAMES: Final = {permission: name for name, permission in _PERMISSIONS.items()}


# -- ACLs ----------------------------------------------------------------------------------------


def acl_parents() -> Iterator[tuple[PatternType, str, str]]:
    """(pattern type, name of the resource type, path) of each parent of ACL znodes."""
    for pattern_type, root in ACL_ROOTS.items():
        for name in ACL_TYPES.values():
            yield pattern_type, name, f"{root}/{name}"


def acl_path(pattern: ResourcePattern) -> str:
    return f"{ACL_ROOTS[pattern.pattern_type]}/{ACL_TYPES[pattern.type]}/{pattern.name}"


def write_acls(acls: Iterable[Acl]) -> bytes:
    entries = [
        {
            "principal": acl.principal,
            "permissionType": _PERMISSION_NAMES[acl.permission],
            "operation": _OPERATION_NAMES[acl.operation],
            "host": acl.host,
        }
        for acl in acls
    ]
    return write_json({"version": _ACL_VERSION, "acls": entries})


def read_acls(pattern: ResourcePattern, data: bytes) -> dict[Acl, None]:
    """The ACLs of a resource. An unknown operation is an error: it may be part of a denial."""
    path = acl_path(pattern)
    document = read_json(path, data) if data else {"acls": ()}
    try:
        return {
            Acl(
                pattern,
                entry["principal"],
                entry["host"],
                _OPERATIONS[entry["operation"]],
                _PERMISSIONS[entry["permissionType"]],
            ): None
            for entry in document["acls"]
        }
    except (KeyError, TypeError) as error:
        raise CorruptStore(f"ZooKeeper: {path} is not a valid list of ACLs: {error!r}") from error


# -- users, client ids and addresses ---------------------------------------------------------------


def entity_path(entity: QuotaEntity) -> str:
    parts = dict(entity.parts)
    if IP in parts:
        return f"{IP_QUOTAS}/{sanitize(parts[IP])}"
    if USER not in parts:
        return f"{CLIENT_QUOTAS}/{sanitize(parts[CLIENT_ID])}"
    path = f"{USERS}/{sanitize(parts[USER])}"
    return f"{path}/clients/{sanitize(parts[CLIENT_ID])}" if CLIENT_ID in parts else path


def user_clients_path(user: str | None) -> str:
    """The parent of the quotas of a user's client ids."""
    return f"{USERS}/{sanitize(user)}/clients"


def sanitize(name: str | None) -> str:
    """The znode of an entity, as Kafka's Sanitizer names it; None is the default entity."""
    if name is None:
        return DEFAULT_ENTITY
    escaped = quote(name, safe="").replace("~", "%7E")
    # ZooKeeper treats these two as directories.
    return escaped.replace(".", "%2E") if escaped in (".", "..") else escaped


def desanitize(child: str) -> str | None:
    return None if child == DEFAULT_ENTITY else unquote(child)


def read_entity_config(path: str, data: bytes) -> dict[str, str]:
    """The config of an entity. Kafka leaves the znode empty if only its children have one."""
    return read_config(path, data) if data else {}


def scram_credentials_in(
    path: str, config: Mapping[str, str]
) -> Iterator[tuple[ScramMechanism, ScramCredential]]:
    for name, mechanism in SCRAM_MECHANISMS.items():
        if name in config:
            yield mechanism, _read_credential(path, name, config[name])


def write_credential(credential: ScramCredential) -> str:
    """The credential as Kafka's ScramCredentialUtils writes it."""
    salt, stored_key, server_key = (
        b64encode(part).decode()
        for part in (credential.salt, credential.stored_key, credential.server_key)
    )
    return (
        f"salt={salt},stored_key={stored_key},server_key={server_key},"
        f"iterations={credential.iterations}"
    )


def _read_credential(path: str, mechanism: str, text: str) -> ScramCredential:
    try:
        fields = dict(part.split("=", 1) for part in text.split(","))
        return ScramCredential(
            b64decode(fields["salt"], validate=True),
            b64decode(fields["stored_key"], validate=True),
            b64decode(fields["server_key"], validate=True),
            int(fields["iterations"]),
        )
    except (KeyError, ValueError):
        # Without the original error, which may contain parts of the credential.
        raise CorruptStore(f"ZooKeeper: {path} has an invalid {mechanism} credential") from None


def quotas_in(path: str, config: Mapping[str, str]) -> dict[str, float]:
    try:
        return {key: float(value) for key, value in config.items() if key in _QUOTA_KEYS}
    except ValueError as error:
        raise CorruptStore(f"ZooKeeper: {path} has an invalid quota: {error}") from error


def write_quota(value: float) -> str:
    # Kafka reads most quotas as integers.
    return str(int(value)) if float(value).is_integer() else repr(value)


# -- delegation tokens -----------------------------------------------------------------------------


def token_path(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


def write_token(token: DelegationToken) -> bytes:
    return write_json(
        {
            "version": _TOKEN_VERSION,
            "owner": sanitize(str(token.owner)),
            "tokenRequester": sanitize(str(token.requester)),
            "renewers": [sanitize(str(renewer)) for renewer in token.renewers],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.token_id,
        }
    )


def read_token(token_id: str, data: bytes) -> DelegationToken:
    path = token_path(token_id)
    document = read_json(path, data)
    try:
        owner = parse_principal(unquote(document["owner"]))
        requester = owner
        if document["version"] >= _VERSION_WITH_REQUESTER:
            requester = parse_principal(unquote(document["tokenRequester"]))
        return DelegationToken(
            document["tokenId"],
            owner,
            requester,
            tuple(parse_principal(unquote(renewer)) for renewer in document["renewers"]),
            int(document["issueTimestamp"]),
            int(document["expiryTimestamp"]),
            int(document["maxTimestamp"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(
            f"ZooKeeper: {path} is not a valid delegation token: {error!r}"
        ) from error
