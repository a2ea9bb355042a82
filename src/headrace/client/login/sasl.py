"""The client's side of a SASL exchange: tokens in, tokens out. Pure.

SCRAM (RFC 5802) proves the password without sending it, and checks that the server knows it too.
An exchange that ends without the server's proof fails.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator
from typing import Final, TypeAlias

from headrace.client.login.security import Credentials, Mechanism

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields the next token to send and is sent the server's reply; returns when authenticated."""

MIN_ITERATIONS: Final = 4096  # RFC 7677; Kafka refuses fewer as well
MAX_ITERATIONS: Final = 1_000_000  # a hostile server must not keep this client busy for minutes
_HEADER: Final = "n,,"  # no channel binding, no other identity


class SaslRefused(Exception):
    """The server broke the protocol, or did not prove that it knows the password."""


def start(credentials: Credentials, nonce: str, token: str = "") -> Exchange:
    """Starts the exchange for these credentials; `nonce` must be fresh and unpredictable.

    `token` is the bearer token of OAUTHBEARER.
    """
    if credentials.mechanism is Mechanism.PLAIN:
        return _plain(credentials)
    if credentials.mechanism is Mechanism.OAUTHBEARER:
        return _oauthbearer(credentials, token)
    algorithm = "sha256" if credentials.mechanism is Mechanism.SCRAM_SHA_256 else "sha512"
    return _scram(credentials, nonce, algorithm)


def _plain(credentials: Credentials) -> Exchange:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _oauthbearer(credentials: Credentials, token: str) -> Exchange:
    """RFC 7628. A broker that refuses the token sends the reason, which a ^A must acknowledge."""
    pairs = "".join(f"{name}={value}\1" for name, value in credentials.extensions)
    reason = yield f"{_HEADER}\1auth=Bearer {token}\1{pairs}\1".encode()
    if reason:
        yield b"\1"
        raise SaslRefused(f"the token was refused: {reason.decode('utf-8', 'replace')}")


def _scram(credentials: Credentials, nonce: str, algorithm: str) -> Exchange:
    name = credentials.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    if credentials.is_token:
        first += ",tokenauth=true"
    challenge = (yield (_HEADER + first).encode()).decode("utf-8", "replace")
    server_nonce, salt, iterations = _read_challenge(challenge, nonce)
    final = f"c={base64.b64encode(_HEADER.encode()).decode()},r={server_nonce}"
    signed = ",".join((first, challenge, final)).encode()
    password = credentials.password.encode()  # not normalized, as in Kafka
    salted = hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    signature = hmac.digest(stored_key, signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    expected = b"v=" + base64.b64encode(hmac.digest(server_key, signed, algorithm))
    if answer.startswith(b"e="):
        raise SaslRefused(f"the server refused: {answer[2:].decode('utf-8', 'replace')}")
    if not hmac.compare_digest(answer.split(b",")[0], expected):
        raise SaslRefused("the server did not prove that it knows the password")


def _read_challenge(text: str, nonce: str) -> tuple[str, bytes, int]:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if "e" in fields:
        raise SaslRefused(f"the server refused: {fields['e']}")
    try:
        salt = base64.b64decode(fields["s"], validate=True)
        iterations = int(fields["i"])
        server_nonce = fields["r"]
    except (KeyError, ValueError, binascii.Error) as error:
        raise SaslRefused("the server's challenge is malformed") from error
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise SaslRefused("the server did not extend the client's nonce")
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise SaslRefused(
            f"the server asks for {iterations} iterations; "
            f"{MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
        )
    return server_nonce, salt, iterations
