"""Plans the writes of ACLs, SCRAM credentials, client quotas and delegation tokens. Pure.

The records of a batch that change one znode become one operation. Each resource, entity and token
is a step of its own: none of them is ever half written.
"""

from collections.abc import Iterator

from headrace.cluster.metadata_records import (
    AclCreated,
    AclDeleted,
    ClientQuotaChanged,
    DelegationTokenChanged,
    DelegationTokenRemoved,
    MetadataRecord,
    ScramCredentialChanged,
)
from headrace.cluster.metadata_store import StoreError
from headrace.cluster.stores import security_znodes, znodes
from headrace.cluster.stores.security_znode_reader import StoredSecurity, user_entity
from headrace.cluster.stores.zookeeper_client import Create, Delete, Op, SetData
from headrace.security.authorization.acl import Acl, ResourcePattern
from headrace.security.quotas.client_quota import CLIENT_ID, USER, QuotaEntity
from headrace.security.tokens.delegation_token import DelegationToken


class SecurityZnodePlanner:
    """Collects the records of a batch; `steps` returns their writes and updates `stored`."""

    def __init__(self, stored: StoredSecurity) -> None:
        self._stored = stored
        # The new contents, in the order of their first change; nothing in them means "remove".
        self._acls: dict[ResourcePattern, dict[Acl, None]] = {}
        self._entities: dict[QuotaEntity, dict[str, str]] = {}
        self._tokens: dict[str, DelegationToken | None] = {}

    def add(self, record: MetadataRecord) -> None:
        match record:
            case AclCreated(acl):
                self._changing_acls(acl.pattern)[acl] = None
            case AclDeleted(acl):
                self._changing_acls(acl.pattern).pop(acl, None)
            case ScramCredentialChanged(user, mechanism, credential):
                text = None if credential is None else security_znodes.write_credential(credential)
                self._change_config(user_entity(user), mechanism.mechanism_name, text)
            case ClientQuotaChanged(entity, key, value):
                text = None if value is None else security_znodes.write_quota(value)
                self._change_config(entity, key, text)
            case DelegationTokenChanged(token):
                self._tokens[token.token_id] = token
            case DelegationTokenRemoved(token_id):
                self._tokens[token_id] = None
            case _:
                raise StoreError(f"{type(record).__name__} cannot be stored in ZooKeeper")

    def steps(self) -> Iterator[list[Op]]:
        """The operations of each changed resource, entity and token; empty if nothing changes."""
        for pattern, acls in self._acls.items():
            yield self._acl_ops(pattern, acls)
        for entity, config in self._entities.items():
            yield list(self._entity_ops(entity, config))
        for token_id, token in self._tokens.items():
            yield self._token_ops(token_id, token)

    def _changing_acls(self, pattern: ResourcePattern) -> dict[Acl, None]:
        if pattern not in self._acls:
            self._acls[pattern] = dict(self._stored.acls.get(pattern, {}))
        return self._acls[pattern]

    def _change_config(self, entity: QuotaEntity, key: str, value: str | None) -> None:
        if entity not in self._entities:
            self._entities[entity] = dict(self._stored.entities.get(entity, {}))
        if value is None:
            self._entities[entity].pop(key, None)
        else:
            self._entities[entity][key] = value

    def _acl_ops(self, pattern: ResourcePattern, acls: dict[Acl, None]) -> list[Op]:
        path = security_znodes.acl_path(pattern)
        before = self._stored.acls.get(pattern)
        if not acls:
            return [] if self._stored.acls.pop(pattern, None) is None else [Delete(path)]
        self._stored.acls[pattern] = acls
        if before is None:
            return [Create(path, security_znodes.write_acls(acls))]
        return [] if before == acls else [SetData(path, security_znodes.write_acls(acls))]

    def _token_ops(self, token_id: str, token: DelegationToken | None) -> list[Op]:
        path = security_znodes.token_path(token_id)
        before = self._stored.tokens.get(token_id)
        if token is None:
            return [] if self._stored.tokens.pop(token_id, None) is None else [Delete(path)]
        self._stored.tokens[token_id] = token
        data = security_znodes.write_token(token)
        return [Create(path, data) if before is None else SetData(path, data)]

    # -- users, client ids and addresses ----------------------------------------------------------

    def _entity_ops(self, entity: QuotaEntity, config: dict[str, str]) -> Iterator[Op]:
        """A user's znode stays while a client id below it has quotas."""
        stored = self._stored
        before = stored.entities.get(entity)
        path = stored.entity_path(entity)
        parts = dict(entity.parts)
        if config or (before is not None and self._has_clients(entity)):
            if before is None:
                yield from self._create_entity_parents(parts)
                yield Create(path, znodes.write_config(config))
            elif before != config:
                yield SetData(path, znodes.write_config(config))
            stored.entities[entity] = config
        elif before is not None:
            yield from self._delete_entity(entity, path)
            yield from self._delete_empty_entity_parents(parts)

    def _has_clients(self, entity: QuotaEntity) -> bool:
        parts = dict(entity.parts)
        is_user = USER in parts and CLIENT_ID not in parts
        return is_user and bool(self._stored.clients.get(parts[USER]))

    def _create_entity_parents(self, parts: dict[str, str | None]) -> Iterator[Op]:
        if len(parts) == 1:
            return
        user, client = parts[USER], parts[CLIENT_ID]
        if user_entity(user) not in self._stored.entities:
            self._stored.entities[user_entity(user)] = {}
            path = self._stored.entity_path(user_entity(user))
            yield Create(path, znodes.write_config({}))
        if user not in self._stored.clients:
            self._stored.clients[user] = set()
            yield Create(security_znodes.user_clients_path(user))
        self._stored.clients[user].add(client)

    def _delete_entity(self, entity: QuotaEntity, path: str) -> Iterator[Op]:
        del self._stored.entities[entity]
        parts = dict(entity.parts)
        if CLIENT_ID not in parts and USER in parts and parts[USER] in self._stored.clients:
            del self._stored.clients[parts[USER]]
            yield Delete(security_znodes.user_clients_path(parts[USER]))
        yield Delete(path)

    def _delete_empty_entity_parents(self, parts: dict[str, str | None]) -> Iterator[Op]:
        if len(parts) == 1:
            return
        user, clients = parts[USER], self._stored.clients[parts[USER]]
        clients.discard(parts[CLIENT_ID])
        if clients:
            return
        if not self._stored.entities[user_entity(user)]:
            yield from self._delete_entity(
                user_entity(user), self._stored.entity_path(user_entity(user))
            )
        else:
            del self._stored.clients[user]
            yield Delete(security_znodes.user_clients_path(user))
