"""The passwords of dynamic broker settings: encrypted wherever they are stored or sent.

The controller encrypts them before it writes a record, so the metadata of every broker and every
store contains only encrypted ones. A broker decrypts them where it uses them.
"""

import logging
from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Final

from headrace.cluster.configs.catalog import BROKER, broker_definition
from headrace.security.password_encoder import (
    UndecodablePassword,
    decrypt_password,
    encrypt_password,
    is_encrypted,
)

_SECRETS: Final = ("password.encoder.secret", "password.encoder.old.secret")
"""The one that encrypts, and the previous one."""
_ITERATIONS: Final = "password.encoder.iterations"

_CACHED_PASSWORDS: Final = 128
"""Decrypting one takes milliseconds, and a broker reads its settings after each change."""

log = logging.getLogger(__package__)


class NoPasswordSecret(Exception):
    """A password cannot be stored because `password.encoder.secret` is not set."""

    def __init__(self) -> None:
        super().__init__(
            f"Password encoder secret not configured: set {_SECRETS[0]} to the same value in the "
            "configuration of every broker, and restart them"
        )


def is_password(name: str) -> bool:
    """Whether a broker setting, with or without the prefix of a listener, is a password."""
    definition = broker_definition(name)
    return definition is not None and definition.sensitive


def stored_password(password: str, static: Mapping[str, str], rng: Random) -> str:
    """The text to store; raises `NoPasswordSecret`."""
    secret = static.get(_SECRETS[0])
    if not secret:
        raise NoPasswordSecret
    iterations = int(static.get(_ITERATIONS) or BROKER[_ITERATIONS].default or 0)
    return encrypt_password(password, secret, iterations=iterations, randbytes=rng.randbytes)


def with_clear_passwords(values: Mapping[str, str], static: Mapping[str, str]) -> Mapping[str, str]:
    """The dynamic values of a broker as it uses them: never for a description or a log.

    As in Kafka, a password that no secret decrypts is logged and left out.
    """
    encrypted = [
        name for name, value in values.items() if is_password(name) and is_encrypted(value)
    ]
    if not encrypted:
        return values
    clear = dict(values)
    secrets = tuple(secret for name in _SECRETS if (secret := static.get(name)))
    for name in encrypted:
        password = _clear_password(name, clear.pop(name), secrets)
        if password is not None:
            clear[name] = password
    return clear


@lru_cache(_CACHED_PASSWORDS)
def _clear_password(name: str, text: str, secrets: tuple[str, ...]) -> str | None:
    """The password, or None after logging an error, once for each text."""
    for secret in secrets:
        try:
            return decrypt_password(text, secret)
        except UndecodablePassword:
            continue
        except ImportError as error:
            log.error("cannot decrypt the dynamic setting %s, so it has no effect: %s", name, error)
            return None
    log.error(
        "cannot decrypt the dynamic setting %s, so it has no effect: neither %s nor %s is the "
        "secret with which it was stored; set the secret, or set the setting again",
        name,
        *_SECRETS,
    )
    return None
