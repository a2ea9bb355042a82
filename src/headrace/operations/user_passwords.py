"""Passwords of SCRAM users: generated, or checked. Pure but for the random source."""

import secrets
import string
import unicodedata
from typing import Final

from headrace.client.admin.users import NewCredential
from headrace.security.sasl.scram_credential import ScramMechanism

DEFAULT_MECHANISM: Final = ScramMechanism.SCRAM_SHA_512
DEFAULT_ITERATIONS: Final = 8192
SALT_BYTES: Final = 26
"""As many as Kafka's own tool makes, so that the salts do not show which tool was used."""
GENERATED_CHARS: Final = 32
MAX_PASSWORD_BYTES: Final = 4096
_ALPHABET: Final = string.ascii_letters + string.digits


def generate_password() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(GENERATED_CHARS))


def password_problem(password: str) -> str | None:
    """Why a password that is not empty cannot be used; None if it can."""
    if "\n" in password or len(password) > MAX_PASSWORD_BYTES:
        return f"must be one line of at most {MAX_PASSWORD_BYTES} bytes"
    if unicodedata.normalize("NFKC", password) != password:
        # Some clients send such a password as it is, others in its normal form.
        return "has characters that clients encode differently; use others"
    return None


def new_credential(
    user: str, mechanism: ScramMechanism, password: str, iterations: int = DEFAULT_ITERATIONS
) -> NewCredential:
    """A credential with a fresh salt."""
    return NewCredential(user, mechanism, password, secrets.token_bytes(SALT_BYTES), iterations)
