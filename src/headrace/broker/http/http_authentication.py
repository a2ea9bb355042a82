"""Who may read /metrics: SCRAM users of the cluster (basic), or the bearer of a token from a file.

Guarantees: a wrong password costs the loop nothing (it is hashed in a thread, one at a time) and is
answered late, so guessing is slow. A right one is remembered by a keyed hash until the user's
credential changes. Without TLS, both are sent in the clear, as in every HTTP server.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

from headrace.broker.access.access_control import AccessControl
from headrace.broker.http.http_message import HttpRequest, HttpResponse, text_response
from headrace.broker.runtime.offload import Offload
from headrace.cluster.http_listener import LISTENER_NAME
from headrace.cluster.image import MetadataImage
from headrace.security.authorization.acl import AclOperation
from headrace.security.principal import user
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.session import Session

log = logging.getLogger(__package__)

REALM: Final = "headrace"
MAX_TOKEN_BYTES: Final = 16 * 1024
MAX_REMEMBERED: Final = 100
"""Names with right passwords; a client whose name is forgotten is checked again."""
_MECHANISMS: Final = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)
_DECOY: Final = ScramCredential(bytes(16), bytes(64), bytes(64), 4096)
"""Is checked for users that do not exist, so that they cannot be found by the time."""


class _Remembered(NamedTuple):
    proof: bytes
    credential: ScramCredential


class HttpAuthentication:
    """Decides about the Authorization header of each request."""

    def __init__(
        self,
        methods: Collection[str],
        token_file: str | None,
        *,
        image: Callable[[], MetadataImage],
        access: AccessControl,
        offload: Offload,
        secret: bytes,
        security_protocol: str,
        failure_delay_s: float,
    ) -> None:
        self._methods = methods
        self._token_file = None if token_file is None else Path(token_file)
        self._image = image
        self._access = access
        self._offload = offload
        self._secret = secret
        self._security_protocol = security_protocol
        self._failure_delay_s = failure_delay_s
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()
        self._one_at_a_time = asyncio.Lock()

    async def refusal(self, request: HttpRequest) -> HttpResponse | None:
        """The response to a client that may not read; None for one that may."""
        if not self._methods:
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        scheme, given = scheme.lower(), given.strip()
        if scheme == "bearer" and "bearer" in self._methods:
            if await self._offload(self._is_token, given):
                return None
        elif scheme == "basic" and "basic" in self._methods:
            name = await self._user(given)
            if name is not None:
                return self._check_access(name, request.host)
        elif not scheme:
            return self._challenge("authenticate to read this")
        await asyncio.sleep(self._failure_delay_s)
        session = Session(user("-"), request.host, LISTENER_NAME, self._security_protocol)
        self._access.audit.log_login(session, f"HTTP {scheme}"[:64], error="invalid credentials")
        return self._challenge("the credentials are not valid")

    def _challenge(self, text: str) -> HttpResponse:
        schemes = {"basic": f'Basic realm="{REALM}", charset="UTF-8"', "bearer": "Bearer"}
        headers = tuple(
            ("www-authenticate", value) for key, value in schemes.items() if key in self._methods
        )
        return text_response(401, text, headers)

    def _check_access(self, name: str, host: str) -> HttpResponse | None:
        """With an authorizer, the user needs DESCRIBE on the cluster."""
        session = Session(user(name), host, LISTENER_NAME, self._security_protocol)
        if self._access.allows_cluster(session, AclOperation.DESCRIBE):
            return None
        return text_response(403, "the user needs DESCRIBE on the cluster")

    # --- bearer ---------------------------------------------------------------------------------

    def _is_token(self, given: str) -> bool:
        """Runs in a thread: reads the file for each request, which follows its changes."""
        assert self._token_file is not None  # the settings require it
        try:
            with self._token_file.open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES).strip()
        except OSError as error:
            log.error(
                "cannot read headrace.http.bearer.token.file; /metrics refuses bearer tokens",
                extra={"file": str(self._token_file), "error": error.strerror},
            )
            return False
        return bool(token) and hmac.compare_digest(token, given.encode("latin-1", "replace"))

    # --- basic ----------------------------------------------------------------------------------

    async def _user(self, given: str) -> str | None:
        """The user whose name and password these are."""
        try:
            text = base64.b64decode(given, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return None
        name, colon, password = text.partition(":")
        if not colon:
            return None
        mechanism, credential = self._credential(name)
        proof = hmac.digest(self._secret, text.encode(), "sha256")
        known = self._remembered.get(name)
        if (
            known is not None
            and known.credential == credential
            and hmac.compare_digest(known.proof, proof)
        ):
            return name
        async with self._one_at_a_time:
            right = await self._offload(_is_password, mechanism, credential, password)
        if not right or credential is _DECOY:
            return None
        self._remembered[name] = _Remembered(proof, credential)
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return name

    def _credential(self, name: str) -> tuple[ScramMechanism, ScramCredential]:
        credentials = self._image().scram_credentials
        for mechanism in _MECHANISMS:
            found = credentials.get((name, mechanism))
            if found is not None:
                return mechanism, found
        return _MECHANISMS[0], _DECOY


def _is_password(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Runs in a thread."""
    algorithm = mechanism.algorithm
    salted = hashlib.pbkdf2_hmac(
        algorithm, password.encode(), credential.salt, credential.iterations
    )
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored = hashlib.new(algorithm, client_key).digest()
    return hmac.compare_digest(stored, credential.stored_key)
