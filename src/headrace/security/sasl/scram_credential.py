"""SCRAM credentials as brokers store them (RFC 5802): a password cannot be read from them."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with their codes in requests 50 and 51."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The name in `sasl.mechanism`, e.g. SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def algorithm(self) -> str:
        """The hash's name in `hashlib`."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


SCRAM_MECHANISMS: Final = {
    each.mechanism_name: each for each in ScramMechanism if each is not ScramMechanism.UNKNOWN
}
"""By name."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """One user's credential for one mechanism."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def credential_of(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """What brokers store of a salted password."""
    import hashlib  # every broker imports this module, and few change a credential
    import hmac

    algorithm = mechanism.algorithm
    client_key = hmac.digest(salted_password, b"Client Key", algorithm)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(algorithm, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", algorithm),
        iterations=iterations,
    )
