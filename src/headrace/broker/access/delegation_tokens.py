"""The delegation tokens of one broker: its secret key, and what is derived from it.

Built only on a broker with `delegation.token.secret.key`. The key must be the same on every broker
of the cluster: otherwise a token works only on the brokers with the key of the controller that
created it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from headrace.clock import Clock
from headrace.cluster.image import MetadataImage
from headrace.cluster.settings import BrokerSettings
from headrace.controller.token_changes import TokenLifetimes
from headrace.security.sasl.scram_credential import ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken
from headrace.security.tokens.token_credentials import TokenCredentials, TokenLogin
from headrace.security.tokens.token_hmac import TokenHmacIndex, token_hmac

HMACS_PER_SLICE: Final = 200
"""HMACs derived between two pauses: other clients wait about 1 ms."""


class DelegationTokens:
    """Finds tokens by id or by HMAC in the current metadata image."""

    def __init__(
        self, settings: BrokerSettings, image: Callable[[], MetadataImage], clock: Clock
    ) -> None:
        """`settings` have the key; `image` returns the current metadata image."""
        self.lifetimes = TokenLifetimes(
            settings.integer("delegation.token.max.lifetime.ms"),
            settings.integer("delegation.token.expiry.time.ms"),
        )
        self._secret_key = (settings.string("delegation.token.secret.key") or "").encode()
        self._image = image
        self._clock = clock
        self._by_hmac = TokenHmacIndex(self._secret_key)
        self._credentials = TokenCredentials(self._secret_key)

    def hmac_of(self, token: DelegationToken) -> bytes:
        return token_hmac(self._secret_key, token.token_id)

    async def find(self, hmac: bytes) -> str | None:
        """The id of the token with this HMAC."""
        while True:
            if self._by_hmac.follow(self._image().delegation_tokens, HMACS_PER_SLICE):
                return self._by_hmac.find(hmac)
            await asyncio.sleep(0)

    def login(self, token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
        """The credential and the identity for a login; None for an unknown or expired token."""
        tokens = self._image().delegation_tokens
        return self._credentials.login(tokens, token_id, mechanism, self._clock.wall_ms())

    def is_valid(self, token_id: str) -> bool:
        """Whether sessions of clients that logged in with the token may continue."""
        token = self._image().delegation_tokens.get(token_id)
        return token is not None and not token.is_expired(self._clock.wall_ms())
