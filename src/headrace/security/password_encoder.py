"""Encrypts passwords of dynamic settings with AES-GCM, in the format of Kafka's PasswordEncoder.

The key is derived from `password.encoder.secret`. The text names everything else that is needed to
decrypt it, so passwords that Kafka encrypted in ZooKeeper, also those with AES-CBC, can be read.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final

NEEDS_CRYPTOGRAPHY: Final = (
    "encrypted passwords need the cryptography package: pip install 'headrace[security]'"
)

_GCM: Final = "AES/GCM/NoPadding"
_CBC: Final = "AES/CBC/PKCS5Padding"
_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
_HASHES: Final = {
    "PBKDF2WithHmacSHA1": "sha1",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA512": "sha512",
}
_KEY_BITS: Final = 256
_SALT_BYTES: Final = 32
_IV_BYTES: Final = 12
_TAG_BITS: Final = 128
_BLOCK_BITS: Final = 128
_MAX_ITERATIONS: Final = 10_000_000
"""Of a stored password: decrypting must not stall the broker for longer than some seconds."""


class UndecodablePassword(ValueError):
    """Another secret encrypted the password, or it is damaged."""


def is_encrypted(text: str) -> bool:
    return "encryptedPassword:" in text and "cipherAlgorithm:" in text


def encrypt_password(
    password: str, secret: str, *, iterations: int, randbytes: Callable[[int], bytes]
) -> str:
    """The encrypted password; raises `ImportError` without the cryptography package."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, iv = randbytes(_SALT_BYTES), randbytes(_IV_BYTES)
    key = hashlib.pbkdf2_hmac("sha512", secret.encode(), salt, iterations, _KEY_BITS // 8)
    fields = {
        "keyFactoryAlgorithm": _KEY_FACTORY,
        "cipherAlgorithm": _GCM,
        "keyLength": _KEY_BITS,
        "salt": b64encode(salt).decode(),
        "iterations": iterations,
        "encryptedPassword": b64encode(AESGCM(key).encrypt(iv, password.encode(), None)).decode(),
        "passwordLength": _java_length(password),
        "initializationVector": b64encode(iv).decode(),
        "authenticationTagLength": _TAG_BITS,
    }
    return ",".join(f"{name}:{value}" for name, value in fields.items())


def decrypt_password(text: str, secret: str) -> str:
    """The password; raises `UndecodablePassword`, or `ImportError` without cryptography."""
    fields = dict(part.strip().rpartition(":")[::2] for part in text.split(","))
    try:
        iterations, key_bits = int(fields["iterations"]), int(fields["keyLength"])
        if not (0 < iterations <= _MAX_ITERATIONS and key_bits in (128, 192, 256)):
            raise UndecodablePassword("the encrypted password has an invalid key")
        key = hashlib.pbkdf2_hmac(
            _HASHES[fields["keyFactoryAlgorithm"]],
            secret.encode(),
            b64decode(fields["salt"]),
            iterations,
            key_bits // 8,
        )
        password = _decrypt(fields, key).decode()
        if _java_length(password) != int(fields["passwordLength"]):
            raise UndecodablePassword("the secret does not decrypt the password")
    except UndecodablePassword:
        raise
    except (KeyError, ValueError):
        # Without the original error, which may contain parts of the text.
        raise UndecodablePassword("the secret does not decrypt the password") from None
    return password


def _decrypt(fields: Mapping[str, str], key: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC
    from cryptography.hazmat.primitives.padding import PKCS7

    encrypted, iv = (
        b64decode(fields["encryptedPassword"]),
        b64decode(fields["initializationVector"]),
    )
    if fields["cipherAlgorithm"] == _GCM:
        try:
            return AESGCM(key).decrypt(iv, encrypted, None)
        except InvalidTag:
            raise UndecodablePassword("the secret does not decrypt the password") from None
    if fields["cipherAlgorithm"] != _CBC:
        raise UndecodablePassword("the cipher of the encrypted password is not supported")
    decryptor, unpadder = Cipher(AES(key), CBC(iv)).decryptor(), PKCS7(_BLOCK_BITS).unpadder()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
