"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with Kafka's extension for tokens.

Guarantees:

* The client proves that it knows the password, without sending it, and gets a proof that the broker
  knows the stored credential.
* The final message repeats the whole nonce (CVE-2024-56128) and the header of the first message.
  A mandatory extension (`m=`) and channel binding (`p=`) are refused: neither is supported.
* An unknown user gets a challenge like any other, from a made-up credential, and fails at
  the end. The work and the answers are those of a wrong password.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from headrace.security.principal import Principal, user
from headrace.security.sasl.exchange import (
    OTHER_AUTHORIZATION_ID,
    Challenge,
    Failure,
    Outcome,
    Success,
)
from headrace.security.sasl.scram_credential import MIN_ITERATIONS, ScramCredential, ScramMechanism

TOKEN_EXTENSION: Final = "tokenauth"  # noqa: S105 - the name of an extension
MAX_MESSAGE_BYTES: Final = 16 * 1024
"""Clients that are not authenticated send these: to parse one must not keep others waiting."""
_SALT_BYTES: Final = 26
"""The length of the salts that Kafka's tools make."""
_FIRST: Final = re.compile(r"([ny]),(?:a=([^,]*))?,(.*)", re.DOTALL)
_NAME: Final = re.compile(r"(?:[^=,\0]|=2C|=3D)+")
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[^\0]*")
_FINAL: Final = re.compile(r"c=([^,]*),r=([^,]*)((?:,[A-Za-z]+=[^\0,]*)*),p=([^,]*)")


_Credentials = Mapping[tuple[str, ScramMechanism], ScramCredential]


class InvalidMessage(Exception):
    """A message of the client is not of the form that RFC 5802 defines. It is never shown whole."""


class TokenLogin(Protocol):
    """What a login with a delegation token is checked against, and what it results in."""

    @property
    def credential(self) -> ScramCredential: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def expiry_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ScramLookup:
    """Where an exchange finds credentials."""

    of_user: Callable[[str], ScramCredential | None]
    of_token: Callable[[str], TokenLogin | None]
    """By token id; None also for an expired token."""
    decoys: "DecoyCredentials"


class DecoyCredentials:
    """Credentials for users that do not exist.

    The same user gets the same salt each time, as a real user does. Its length and the number of
    iterations are those of one of the real credentials.
    """

    def __init__(self, secret: bytes, mechanism: ScramMechanism) -> None:
        self._secret = secret
        self._mechanism = mechanism
        self._known: _Credentials | None = None
        self._shapes = [(_SALT_BYTES, MIN_ITERATIONS)]

    def imitate(self, credentials: _Credentials) -> "DecoyCredentials":
        """Makes decoys look like these credentials from now on."""
        if credentials is not self._known:
            shapes = {
                (len(each.salt), each.iterations)
                for (_, mechanism), each in credentials.items()
                if mechanism is self._mechanism
            }
            self._shapes = sorted(shapes) or [(_SALT_BYTES, MIN_ITERATIONS)]
            self._known = credentials
        return self

    def of(self, name: str) -> ScramCredential:
        algorithm = self._mechanism.algorithm
        seed = hmac.digest(self._secret, name.encode(errors="surrogatepass"), algorithm)
        salt_bytes, iterations = self._shapes[seed[0] % len(self._shapes)]
        salt = hashlib.pbkdf2_hmac(algorithm, seed, b"salt", 1, max(1, salt_bytes))
        stored_key = hmac.digest(seed, b"stored key", algorithm)
        server_key = hmac.digest(seed, b"server key", algorithm)
        return ScramCredential(salt, stored_key, server_key, iterations)


@dataclass(slots=True)
class _Started:
    """What the final message is checked against."""

    name: str
    header: str
    nonce: str
    first_messages: bytes = field(repr=False)
    """The first messages of the client and of the server, which both sides sign."""
    credential: ScramCredential
    is_known: bool
    token: TokenLogin | None


class ScramExchange:
    """Implements `Exchange`."""

    def __init__(self, mechanism: ScramMechanism, lookup: ScramLookup, server_nonce: str) -> None:
        """`server_nonce` must be fresh and unpredictable, and may not contain a comma."""
        self._algorithm = mechanism.algorithm
        self._lookup = lookup
        self._server_nonce = server_nonce
        self._started: _Started | None = None

    def respond(self, token: bytes) -> Outcome:
        if len(token) > MAX_MESSAGE_BYTES:
            return Failure("the message is too long")
        try:
            text = token.decode()
            if self._started is None:
                return self._first(text)
            return self._final(text, self._started)
        except UnicodeDecodeError:
            return Failure("the message is not UTF-8")
        except InvalidMessage as error:
            return Failure(str(error))

    def _first(self, text: str) -> Outcome:
        first = _read_first(text)
        name = first.name
        if first.authorization_id not in ("", name):
            reason = f"asked to act as {first.authorization_id!r}"
            return Failure(reason, OTHER_AUTHORIZATION_ID, name)
        # Both are computed for every user: the time must not show which one is used.
        decoy = self._lookup.decoys.of(name)
        token: TokenLogin | None = None
        if first.is_token:
            token = self._lookup.of_token(name)
            found = None if token is None else token.credential
        else:
            found = self._lookup.of_user(name)
        credential = found or decoy
        nonce = first.nonce + self._server_nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={nonce},s={salt},i={credential.iterations}"
        messages = f"{first.bare},{answer}".encode()
        self._started = _Started(
            name, first.header, nonce, messages, credential, found is not None, token
        )
        return Challenge(answer.encode())

    def _final(self, text: str, started: _Started) -> Outcome:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise InvalidMessage("the client's final message is malformed")
        binding, nonce, extensions, proof_text = match.groups()
        _refuse_mandatory(extensions)
        if not hmac.compare_digest(_decoded(binding), started.header.encode()):
            raise InvalidMessage("the channel binding is not the header of the first message")
        if not hmac.compare_digest(nonce.encode(), started.nonce.encode()):
            raise InvalidMessage("the client's final message has another nonce")
        credential, algorithm = started.credential, self._algorithm
        without_proof = text[: match.start(4) - len(",p=")]
        signed = started.first_messages + b"," + without_proof.encode()
        signature = hmac.digest(credential.stored_key, signed, algorithm)
        proof = _decoded(proof_text)
        if len(proof) != len(signature):
            raise InvalidMessage("the client's proof has another length")
        client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=True))
        stored_key = hashlib.new(algorithm, client_key).digest()
        is_proved = hmac.compare_digest(stored_key, credential.stored_key)
        server_signature = hmac.digest(credential.server_key, signed, algorithm)
        if not (is_proved and started.is_known):
            return Failure("invalid user or password", claimed_user=started.name)
        return self._success(started, b"v=" + base64.b64encode(server_signature))

    def _success(self, started: _Started, answer: bytes) -> Success:
        token = started.token
        if token is None:
            return Success(user(started.name), answer, credential=started.credential)
        return Success(token.principal, answer, token.expiry_ms, started.name, started.credential)


@dataclass(frozen=True, slots=True)
class _First:
    """The parts of the client's first message."""

    header: str
    authorization_id: str
    bare: str
    name: str
    nonce: str
    is_token: bool


def _read_first(text: str) -> _First:
    match = _FIRST.fullmatch(text)
    if match is None:
        raise InvalidMessage("the client's first message is malformed, or asks for channel binding")
    _, authorization, bare = match.groups()
    header = text[: match.start(3)]
    name_field, _, rest = bare.partition(",")
    nonce_field, _, extensions = rest.partition(",")
    if name_field.startswith("m="):
        raise InvalidMessage("the client requires an extension that is not supported")
    nonce = nonce_field[2:]
    if not (
        name_field.startswith("n=") and nonce_field.startswith("r=") and _NONCE.fullmatch(nonce)
    ):
        raise InvalidMessage("the client's first message has no user name or no nonce")
    authorization_id = "" if authorization is None else _name(authorization)
    given = _extensions(extensions)
    is_token = given.get(TOKEN_EXTENSION, "").lower() == "true"
    return _First(header, authorization_id, bare, _name(name_field[2:]), nonce, is_token)


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise InvalidMessage("a name is empty or not encoded as RFC 5802 requires")
    return text.replace("=2C", ",").replace("=3D", "=")


def _extensions(text: str) -> dict[str, str]:
    _refuse_mandatory("," + text)
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        if _EXTENSION.fullmatch(part) is None:
            raise InvalidMessage("an extension is malformed")
        key, _, value = part.partition("=")
        found[key] = value
    return found


def _refuse_mandatory(extensions: str) -> None:
    if ",m=" in extensions:
        raise InvalidMessage("the client requires an extension that is not supported")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidMessage("a field is not base64") from None
