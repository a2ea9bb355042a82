"""Reads ACLs, SCRAM credentials, client quotas and delegation tokens from znodes. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.cluster.stores import security_znodes
from headrace.cluster.stores.znode_paths import (
    ACL_TYPES,
    CLIENT_QUOTAS,
    DELEGATION_TOKENS,
    IP_QUOTAS,
    USERS,
)
from headrace.cluster.stores.znode_read import Reading, Znode, ZnodeRead
from headrace.security.authorization.acl import Acl, ResourcePattern
from headrace.security.quotas.client_quota import CLIENT_ID, IP, USER, QuotaEntity
from headrace.security.sasl.scram_credential import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
)
from headrace.security.tokens.delegation_token import DelegationToken


@dataclass(slots=True)
class StoredSecurity:
    """The znodes of security as the writer needs them. Every key is an existing znode."""

    acls: dict[ResourcePattern, dict[Acl, None]] = field(default_factory=dict)
    entities: dict[QuotaEntity, dict[str, str]] = field(default_factory=dict, repr=False)
    """The whole config of each entity: quotas, SCRAM credentials, and keys of other programs."""
    paths: dict[QuotaEntity, str] = field(default_factory=dict)
    """The paths of entities that another program has encoded in another way."""
    clients: dict[str | None, set[str | None]] = field(default_factory=dict)
    """The client ids below each user whose znode `clients` exists."""
    tokens: dict[str, DelegationToken] = field(default_factory=dict)

    def entity_path(self, entity: QuotaEntity) -> str:
        return self.paths.get(entity) or security_znodes.entity_path(entity)

    def has_secrets(self) -> bool:
        return bool(self.tokens) or any(
            name in config for config in self.entities.values() for name in SCRAM_MECHANISMS
        )

    def scram_credentials(self) -> Mapping[tuple[str, ScramMechanism], ScramCredential]:
        return {
            (user, mechanism): credential
            for entity, config in self.entities.items()
            for user in _named_user(entity)
            for mechanism, credential in security_znodes.scram_credentials_in(
                self.entity_path(entity), config
            )
        }

    def quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        limits = (
            (entity, security_znodes.quotas_in(self.entity_path(entity), config))
            for entity, config in self.entities.items()
        )
        return {entity: found for entity, found in limits if found}


def user_entity(user: str | None) -> QuotaEntity:
    return QuotaEntity(((USER, user),))


def _named_user(entity: QuotaEntity) -> Iterator[str]:
    """The user of an entity that is one user: only users have credentials."""
    match entity.parts:
        case ((type_, str(name)),) if type_ == USER:
            yield name


def read_security(stored: StoredSecurity) -> Reading:
    yield from _read_acls(stored)
    yield from _read_entities(stored)
    yield from _read_tokens(stored)


def _read_acls(stored: StoredSecurity) -> Reading:
    types = {name: type_ for type_, name in ACL_TYPES.items()}
    parents = list(security_znodes.acl_parents())
    answer = yield ZnodeRead(children=[path for _, _, path in parents])
    patterns = [
        ResourcePattern(types[type_name], name, pattern_type)
        for (pattern_type, type_name, _), names in zip(parents, answer.children, strict=True)
        for name in sorted(names or ())
    ]
    answer = yield ZnodeRead([security_znodes.acl_path(pattern) for pattern in patterns])
    for pattern, znode in zip(patterns, answer.znodes, strict=True):
        if znode:
            stored.acls[pattern] = security_znodes.read_acls(pattern, znode.data)


def _read_entities(stored: StoredSecurity) -> Reading:
    roots = {USER: USERS, CLIENT_ID: CLIENT_QUOTAS, IP: IP_QUOTAS}
    answer = yield ZnodeRead(children=list(roots.values()))
    found = [
        (QuotaEntity(((type_, security_znodes.desanitize(child)),)), f"{root}/{child}")
        for (type_, root), children in zip(roots.items(), answer.children, strict=True)
        for child in sorted(children or ())
    ]
    answer = yield ZnodeRead([path for _, path in found])
    parents: list[tuple[str | None, str]] = []
    for (entity, path), znode in zip(found, answer.znodes, strict=True):
        _add_entity(stored, entity, path, znode)
        ((type_, name),) = entity.parts
        if znode and znode.child_count and type_ == USER:
            parents.append((name, f"{path}/clients"))
    yield from _read_clients_of_users(stored, parents)


def _read_clients_of_users(
    stored: StoredSecurity, parents: list[tuple[str | None, str]]
) -> Reading:
    answer = yield ZnodeRead(children=[path for _, path in parents])
    found: list[tuple[QuotaEntity, str]] = []
    for (user, parent), children in zip(parents, answer.children, strict=True):
        if children is None:
            continue
        stored.clients[user] = set()
        for child in sorted(children):
            client = security_znodes.desanitize(child)
            stored.clients[user].add(client)
            entity = QuotaEntity(((CLIENT_ID, client), (USER, user)))
            found.append((entity, f"{parent}/{child}"))
    answer = yield ZnodeRead([path for _, path in found])
    for (entity, path), znode in zip(found, answer.znodes, strict=True):
        _add_entity(stored, entity, path, znode)


def _add_entity(
    stored: StoredSecurity, entity: QuotaEntity, path: str, znode: Znode | None
) -> None:
    if znode is None:
        return
    stored.entities[entity] = security_znodes.read_entity_config(path, znode.data)
    if path != security_znodes.entity_path(entity):
        stored.paths[entity] = path


def _read_tokens(stored: StoredSecurity) -> Reading:
    answer = yield ZnodeRead(children=[DELEGATION_TOKENS])
    ids = sorted(answer.children[0] or ())
    answer = yield ZnodeRead([security_znodes.token_path(id_) for id_ in ids])
    for id_, znode in zip(ids, answer.znodes, strict=True):
        if znode:
            stored.tokens[id_] = security_znodes.read_token(id_, znode.data)
