"""The SQLite tables of ACLs, SCRAM credentials, client quotas and delegation tokens.

A version without these tables ignores them, and its writes do not touch them. So they are added to
an older file when it is opened, and the schema version stays the same.
"""

import json
import sqlite3
from collections.abc import Iterator
from typing import Final, TypeAlias

from headrace.cluster.metadata_records import (
    AclCreated,
    AclDeleted,
    ClientQuotaChanged,
    DelegationTokenChanged,
    DelegationTokenRemoved,
    MetadataRecord,
    ScramCredentialChanged,
)
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.principal import parse_principal
from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken

SecurityRecord: TypeAlias = (
    AclCreated
    | AclDeleted
    | ScramCredentialChanged
    | ClientQuotaChanged
    | DelegationTokenChanged
    | DelegationTokenRemoved
)

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS acl (
    resource_type INTEGER NOT NULL, resource TEXT NOT NULL, pattern_type INTEGER NOT NULL,
    principal TEXT NOT NULL, host TEXT NOT NULL, operation INTEGER NOT NULL,
    permission INTEGER NOT NULL,
    UNIQUE (resource_type, resource, pattern_type, principal, host, operation, permission)
);
CREATE TABLE IF NOT EXISTS scram_credential (
    user TEXT NOT NULL, mechanism INTEGER NOT NULL, salt BLOB NOT NULL, stored_key BLOB NOT NULL,
    server_key BLOB NOT NULL, iterations INTEGER NOT NULL,
    PRIMARY KEY (user, mechanism)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS client_quota (
    entity TEXT NOT NULL, key TEXT NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (entity, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS delegation_token (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, requester TEXT NOT NULL, renewers TEXT NOT NULL,
    issue_ms INTEGER NOT NULL, expiry_ms INTEGER NOT NULL, max_ms INTEGER NOT NULL
) WITHOUT ROWID;
"""


def create_security_tables(db: sqlite3.Connection) -> None:
    """Creates the tables that do not exist yet, in the open transaction."""
    for statement in _SCHEMA.split(";"):
        db.execute(statement)


def stored_security_records(db: sqlite3.Connection) -> Iterator[MetadataRecord]:
    """The contents of the tables as records. ACLs are in the order of their creation."""
    for type_, name, pattern_type, principal, host, operation, permission in db.execute(
        "SELECT resource_type, resource, pattern_type, principal, host, operation, permission"
        " FROM acl ORDER BY rowid"
    ):
        pattern = ResourcePattern(AclResourceType(type_), name, PatternType(pattern_type))
        yield AclCreated(
            Acl(pattern, principal, host, AclOperation(operation), AclPermission(permission))
        )
    for user, mechanism, salt, stored_key, server_key, iterations in db.execute(
        "SELECT user, mechanism, salt, stored_key, server_key, iterations FROM scram_credential"
    ):
        credential = ScramCredential(bytes(salt), bytes(stored_key), bytes(server_key), iterations)
        yield ScramCredentialChanged(user, ScramMechanism(mechanism), credential)
    for entity, key, value in db.execute("SELECT entity, key, value FROM client_quota"):
        yield ClientQuotaChanged(_read_entity(entity), key, value)
    for token_id, owner, requester, renewers, *times in db.execute(
        "SELECT id, owner, requester, renewers, issue_ms, expiry_ms, max_ms FROM delegation_token"
    ):
        yield DelegationTokenChanged(
            DelegationToken(
                token_id,
                parse_principal(owner),
                parse_principal(requester),
                tuple(map(parse_principal, json.loads(renewers))),
                *times,
            )
        )


def write_security_record(db: sqlite3.Connection, record: SecurityRecord) -> None:
    """Applies the record to its table, in the open transaction."""
    match record:
        case AclCreated(acl):
            db.execute("INSERT OR IGNORE INTO acl VALUES (?, ?, ?, ?, ?, ?, ?)", _acl_row(acl))
        case AclDeleted(acl):
            db.execute(
                "DELETE FROM acl WHERE resource_type = ? AND resource = ? AND pattern_type = ?"
                " AND principal = ? AND host = ? AND operation = ? AND permission = ?",
                _acl_row(acl),
            )
        case ScramCredentialChanged(user, mechanism, None):
            db.execute(
                "DELETE FROM scram_credential WHERE user = ? AND mechanism = ?",
                (user, int(mechanism)),
            )
        case ScramCredentialChanged(user, mechanism, ScramCredential() as credential):
            db.execute(
                "INSERT OR REPLACE INTO scram_credential VALUES (?, ?, ?, ?, ?, ?)",
                (
                    user,
                    int(mechanism),
                    credential.salt,
                    credential.stored_key,
                    credential.server_key,
                    credential.iterations,
                ),
            )
        case ClientQuotaChanged(entity, key, None):
            db.execute(
                "DELETE FROM client_quota WHERE entity = ? AND key = ?",
                (_write_entity(entity), key),
            )
        case ClientQuotaChanged(entity, key, value):
            db.execute(
                "INSERT OR REPLACE INTO client_quota VALUES (?, ?, ?)",
                (_write_entity(entity), key, value),
            )
        case DelegationTokenChanged(token):
            db.execute(
                "INSERT OR REPLACE INTO delegation_token VALUES (?, ?, ?, ?, ?, ?, ?)",
                _token_row(token),
            )
        case DelegationTokenRemoved(token_id):
            db.execute("DELETE FROM delegation_token WHERE id = ?", (token_id,))


def _acl_row(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    pattern = acl.pattern
    return (
        int(pattern.type),
        pattern.name,
        int(pattern.pattern_type),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )


def _token_row(token: DelegationToken) -> tuple[str, str, str, str, int, int, int]:
    return (
        token.token_id,
        str(token.owner),
        str(token.requester),
        json.dumps([str(renewer) for renewer in token.renewers]),
        token.issue_ms,
        token.expiry_ms,
        token.max_ms,
    )


def _write_entity(entity: QuotaEntity) -> str:
    return json.dumps(entity.parts)


def _read_entity(text: str) -> QuotaEntity:
    return QuotaEntity(tuple((type_, name) for type_, name in json.loads(text)))
