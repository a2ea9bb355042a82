"""The logins of one SASL listener: its mechanisms and where their credentials are."""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from headrace.broker.access.audit_log import AuditLog
from headrace.broker.authentication.sessions import Sessions
from headrace.broker.network.connection import Connection, Dispatch
from headrace.cluster.image import MetadataImage
from headrace.cluster.sasl_settings import SaslSettings
from headrace.security.sasl.exchange import Exchange, Success
from headrace.security.sasl.mechanisms import PLAIN
from headrace.security.sasl.plain import PlainExchange, PlainUsers
from headrace.security.sasl.scram import (
    DecoyCredentials,
    ScramExchange,
    ScramLookup,
    TokenLogin,
)
from headrace.security.sasl.scram_credential import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
)

_NONCE_BITS: Final = 192


class TokenLookup(Protocol):
    """Finds the credentials of delegation tokens."""

    def __call__(self, token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
        """None if there is no such token, or it has expired."""
        ...


class BearerTokens(Protocol):
    """Validates the tokens of OAUTHBEARER."""

    def exchange(self) -> Exchange: ...

    async def find_key(self, key_id: str) -> None: ...


class ListenerLogins:
    """Implements `SessionHost` and the server's `Authentication`."""

    def __init__(
        self,
        settings: SaslSettings,
        security_protocol: str,
        sessions: Sessions,
        *,
        image: Callable[[], MetadataImage],
        random: Random,
        decoy_secret: bytes,
        tokens: TokenLookup,
        audit: AuditLog,
        bearer_tokens: BearerTokens | None = None,
    ) -> None:
        self.mechanisms = settings.mechanisms
        self.failure_delay_s = settings.failure_delay_s
        self.max_receive_bytes = settings.max_receive_bytes
        self.authentication_timeout_s = settings.authentication_timeout_s
        self.security_protocol = security_protocol
        self.sessions = sessions
        self._max_session_ms = settings.max_reauth_ms
        self._image = image
        self._random = random
        self._tokens = tokens
        self.log_login = audit.log_login
        self._bearer_tokens = bearer_tokens
        self._plain_users = PlainUsers(settings.plain_passwords)
        self._decoys: dict[ScramMechanism, DecoyCredentials] = {
            each: DecoyCredentials(decoy_secret, each) for each in SCRAM_MECHANISMS.values()
        }

    def start(self, connection: Connection) -> Dispatch:
        """What serves a new connection until its client is authenticated."""
        return self.sessions.begin_login(self, connection)

    def max_session_ms(self, mechanism: str) -> int:
        return self._max_session_ms.get(mechanism, 0)

    def exchange(self, mechanism: str) -> Exchange:
        if mechanism == PLAIN:
            return PlainExchange(self._plain_users)
        scram = SCRAM_MECHANISMS.get(mechanism)
        if scram is not None:
            return ScramExchange(scram, self._scram_lookup(scram), self._nonce())
        assert self._bearer_tokens is not None  # the mechanism is enabled
        return self._bearer_tokens.exchange()

    def is_current(self, mechanism: str, success: Success) -> bool:
        scram = SCRAM_MECHANISMS.get(mechanism)
        if scram is None:
            return True
        if success.token_id is not None:
            return self._tokens(success.token_id, scram) is not None
        return self._user(success.principal.name, scram) == success.credential

    async def find_key(self, key_id: str) -> None:
        assert self._bearer_tokens is not None  # only its exchanges know keys
        await self._bearer_tokens.find_key(key_id)

    def _scram_lookup(self, mechanism: ScramMechanism) -> ScramLookup:
        return ScramLookup(
            of_user=lambda name: self._user(name, mechanism),
            of_token=lambda token_id: self._tokens(token_id, mechanism),
            decoys=self._decoys[mechanism].imitate(self._image().scram_credentials),
        )

    def _user(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return self._image().scram_credentials.get((name, mechanism))

    def _nonce(self) -> str:
        return f"{self._random.getrandbits(_NONCE_BITS):048x}"
