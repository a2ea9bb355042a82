"""Secures a new connection: the TLS context before it opens, the SASL exchange right after."""

import ssl
from random import Random

from headrace.client.connection import ClientConnection
from headrace.client.errors import (
    AuthenticationFailed,
    BadSecurityFiles,
    ClientError,
    code_of_number,
)
from headrace.client.sasl import SaslRefused, start
from headrace.client.security import Credentials, Tls
from headrace.client.versions import VersionRanges
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


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The context for `loop.create_connection`; raises `BadSecurityFiles` for unusable files."""
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key, tls.key_password)
    except (OSError, ssl.SSLError) as error:
        names = [name for name in (tls.ca, tls.certificate, tls.key) if name]
        raise BadSecurityFiles(
            f"cannot load the TLS files ({', '.join(names) or 'system defaults'}): {error}"
        ) from error
    context.check_hostname = tls.check_hostname
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    return context


async def authenticate(
    connection: ClientConnection,
    versions: VersionRanges,
    credentials: Credentials,
    *,
    random: Random,
    timeout_s: float,
) -> None:
    """Returns when the broker has accepted the credentials; raises `AuthenticationFailed`."""
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
    exchange = start(credentials, f"{random.getrandbits(_NONCE_BITS):x}")
    token = next(exchange)
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
            token = exchange.send(bytes(answer.auth_bytes))
    except StopIteration:
        return
    except SaslRefused as error:
        raise AuthenticationFailed(f"{connection.address}: {error}") from error


def _authentication_failed(
    connection: ClientConnection, credentials: Credentials, answer: SaslAuthenticateResponse
) -> ClientError:
    code = code_of_number(answer.error_code)
    detail = answer.error_message or code.message
    if code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
        detail = f"{code.name} ({detail})"
    return AuthenticationFailed(
        f"{connection.address} refused the user {credentials.username!r}: {detail}"
    )
