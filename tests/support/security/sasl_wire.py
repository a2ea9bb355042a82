"""Logins over the raw wire, and the settings of a broker that wants them."""

import hashlib
import secrets
from collections.abc import Mapping

from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from headrace.security.sasl.scram_credential import ScramMechanism
from support.security.scram_client import SHA_256, ScramClient
from support.wire.connection import Wire

PLAIN_USERS = {"admin": "admin-secret", "alice": "alice-secret"}
PREFIX = "listener.name.sasl_plaintext."


def sasl_settings(
    *mechanisms: str, users: Mapping[str, str] = PLAIN_USERS, **more: str
) -> dict[str, str]:
    """Settings of a broker with one SASL_PLAINTEXT listener; PLAIN is always enabled.

    Names in `more` are written with `__` for a dot.
    """
    options = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *mechanisms)),
        f"{PREFIX}plain.sasl.jaas.config": f"{module} required {options};",
        "connection.failed.authentication.delay.ms": "20",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def handshake(wire: Wire, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    return wire.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)


def authenticate(wire: Wire, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    return wire.call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version)


def log_in(
    wire: Wire, user: str = "admin", password: str | None = None, *, version: int = 2
) -> SaslAuthenticateResponse:
    """The response to a login with PLAIN."""
    assert handshake(wire, "PLAIN").error_code == 0
    secret = PLAIN_USERS.get(user, "") if password is None else password
    return authenticate(wire, f"\0{user}\0{secret}".encode(), version)


def log_in_with_scram(
    wire: Wire,
    user: str,
    password: str,
    mechanism: ScramMechanism = SHA_256,
    *,
    extensions: str = "",
) -> SaslAuthenticateResponse:
    """The response to the last message of a login with SCRAM."""
    client = ScramClient(user, password, mechanism, extensions=extensions)
    assert handshake(wire, mechanism.mechanism_name).error_code == 0
    challenge = authenticate(wire, client.first)
    if challenge.error_code:
        return challenge
    done = authenticate(wire, client.final(bytes(challenge.auth_bytes)))
    assert done.error_code or client.trusts(bytes(done.auth_bytes))
    return done


def put_user(
    wire: Wire,
    user: str,
    password: str,
    mechanism: ScramMechanism = SHA_256,
    *,
    iterations: int = 4096,
) -> None:
    """Creates a user or changes its password."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )
    _alter(wire, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


def remove_user(wire: Wire, user: str, mechanism: ScramMechanism = SHA_256) -> None:
    deletion = ScramCredentialDeletion(name=user, mechanism=mechanism)
    _alter(wire, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


def _alter(wire: Wire, request: AlterUserScramCredentialsRequest) -> None:
    answer = wire.call(request, AlterUserScramCredentialsResponse)
    assert [result.error_code for result in answer.results] == [0]
