"""The authentication of one broker: the logins of its SASL listeners, and all their sessions.

A broker without SASL listeners does not import it.
"""

import asyncio
import hmac
from collections.abc import Iterable
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.access.access_control import AccessControl
from headrace.broker.authentication.listener_logins import ListenerLogins, TokenLookup
from headrace.broker.authentication.sessions import Sessions
from headrace.broker.network.connection import Dispatch
from headrace.broker.network.server import Server
from headrace.broker.runtime.errors import StartupError
from headrace.broker.runtime.offload import Offload
from headrace.clock import Clock
from headrace.cluster.image import MetadataImage
from headrace.cluster.listeners import Listener
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.sasl_settings import OAuthBearerSettings
from headrace.cluster.settings import BrokerSettings
from headrace.security.sasl.scram import TokenLogin
from headrace.security.sasl.scram_credential import ScramMechanism

if TYPE_CHECKING:
    from headrace.broker.authentication.jwks import Jwks

_SECRET_BYTES: Final = 32
_DECOY_LABEL: Final = b"headrace: credentials of users that do not exist"


class MetadataView(Protocol):
    """The current metadata image."""

    @property
    def image(self) -> MetadataImage: ...


class AuthenticationHost(Protocol):
    """The part of the broker that authentication uses."""

    settings: BrokerSettings
    clock: Clock
    random: Random
    loop: asyncio.AbstractEventLoop
    offload: Offload
    server: Server
    access: AccessControl

    @property
    def metadata(self) -> MetadataView: ...


class Authentication:
    """Makes the logins of listeners."""

    def __init__(self, broker: AuthenticationHost, dispatch: Dispatch) -> None:
        """`dispatch` serves the requests of authenticated clients."""
        self._broker = broker
        self._sessions = Sessions(broker.loop, broker.clock, dispatch, broker.server.authenticated)
        self._decoy_secret = _decoy_secret(broker.settings, broker.random)
        self._jwks: list[Jwks] = []
        self.find_token: TokenLookup = _no_token
        """Finds delegation tokens; replaced where a broker has them."""

    async def open(self) -> None:
        """Prepares the logins of every SASL listener.

        Raises `StartupError` if the keys for OAUTHBEARER cannot be fetched.
        """
        server = self._broker.server
        for listener in self._broker.settings.listeners:
            if listener.uses_sasl:
                server.authentications[listener.name] = await self._logins_of(listener)

    async def _logins_of(self, listener: Listener) -> ListenerLogins:
        broker = self._broker
        settings = broker.settings.sasl(listener)
        return ListenerLogins(
            settings,
            listener.security_protocol,
            self._sessions,
            image=lambda: broker.metadata.image,
            random=broker.random,
            decoy_secret=self._decoy_secret,
            audit=broker.access.audit,
            tokens=lambda token_id, mechanism: self.find_token(token_id, mechanism),
            bearer_tokens=await self._start_jwks(settings.oauthbearer),
        )

    async def _start_jwks(self, settings: OAuthBearerSettings | None) -> "Jwks | None":
        if settings is None:
            return None
        if find_spec("jwt") is None or find_spec("cryptography") is None:
            raise StartupError("OAUTHBEARER needs PyJWT: pip install 'headrace[security]'")
        from headrace.broker.authentication.jwks import Jwks
        from headrace.broker.authentication.key_download import download

        offload = self._broker.offload
        jwks = Jwks(settings, self._broker.clock, lambda url: download(url, offload))
        self._jwks.append(jwks)
        await jwks.start()
        return jwks

    def replace_dispatch(self, dispatch: Dispatch) -> None:
        """Serves the requests of clients with `dispatch` from now on; see `Server`."""
        self._sessions.dispatch = dispatch

    def stop(self) -> None:
        """Ends all background work; connections are left to the server."""
        for jwks in self._jwks:
            jwks.stop()

    def metadata_changed(self, records: Iterable[MetadataRecord]) -> None:
        """Closes the sessions whose credentials these records change or delete."""
        self._sessions.metadata_changed(records)


def _decoy_secret(settings: BrokerSettings, random: Random) -> bytes:
    """Equal on every broker if they share a secret: else a user that does not exist would get
    another salt from each broker, and a real user would not."""
    shared = settings.string("delegation.token.secret.key")
    if shared is None:
        return random.randbytes(_SECRET_BYTES)
    return hmac.digest(shared.encode(), _DECOY_LABEL, "sha256")


def _no_token(token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
    return None
