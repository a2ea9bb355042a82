"""The SASL exchange of a new connection."""

from random import Random

from headrace.client.errors import AuthenticationFailed, ClientError, code_of_number
from headrace.client.login.sasl import SaslRefused, start
from headrace.client.login.security import Credentials
from headrace.client.network.connection import ClientConnection
from headrace.client.network.versions import VersionRanges
from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from headrace.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_NONCE_BITS = 192
_FRAMED_HANDSHAKE = 1  # after a version 0 handshake the tokens would be sent without frames


async def authenticate(
    connection: ClientConnection,
    versions: VersionRanges,
    credentials: Credentials,
    *,
    random: Random,
    timeout_s: float,
) -> float | None:
    """Returns when the broker has accepted the credentials; raises `AuthenticationFailed`.

    The result is the lifetime of the session in seconds, after which the broker closes the
    connection; None if it is unlimited.
    """
    handshake = await connection.request(
        SaslHandshakeRequest(mechanism=credentials.mechanism.value),
        SaslHandshakeResponse,
        version=_FRAMED_HANDSHAKE,
        timeout_s=timeout_s,
    )
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationFailed(
            f"{connection.address} does not accept {credentials.mechanism.value} "
            f"(it accepts {offered})"
        )
    version = versions.pick(APIS[ApiKey.SASL_AUTHENTICATE])
    bearer = credentials.bearer_token
    if credentials.token_source is not None:
        from headrace.client.login.bearer_token import fetch_token

        bearer = await fetch_token(credentials.token_source, timeout_s=timeout_s)
    exchange = start(credentials, f"{random.getrandbits(_NONCE_BITS):x}", bearer)
    token = next(exchange)
    lifetime_ms = 0
    try:
        while True:
            answer = await connection.request(
                SaslAuthenticateRequest(auth_bytes=token),
                SaslAuthenticateResponse,
                version=version,
                timeout_s=timeout_s,
            )
            if answer.error_code:
                raise _authentication_failed(connection, credentials, answer)
            lifetime_ms = answer.session_lifetime_ms
            token = exchange.send(bytes(answer.auth_bytes))
    except StopIteration:
        return lifetime_ms / 1000 if lifetime_ms else None
    except SaslRefused as error:
        raise AuthenticationFailed(f"{connection.address}: {error}") from error


def _authentication_failed(
    connection: ClientConnection, credentials: Credentials, answer: SaslAuthenticateResponse
) -> ClientError:
    code = code_of_number(answer.error_code)
    detail = answer.error_message or code.message
    if code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
        detail = f"{code.name} ({detail})"
    user = f"user {credentials.username!r}" if credentials.username else "token"
    return AuthenticationFailed(f"{connection.address} refused the {user}: {detail}")
