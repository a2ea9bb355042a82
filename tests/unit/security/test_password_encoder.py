"""Passwords are encrypted in Kafka's format, and only the right secret decrypts them."""

from random import Random

import pytest

from headrace.security.password_encoder import (
    UndecodablePassword,
    decrypt_password,
    encrypt_password,
    is_encrypted,
)

SECRET = "a secret of the brokers"
WITH_GCM = ""
WITH_CBC = ""


def encrypt(password: str) -> str:
    return encrypt_password(password, SECRET, iterations=1024, randbytes=Random(1).randbytes)


@pytest.mark.parametrize("password", ["", "hush", "ü, with:separators=", "𝄞" * 3, "p" * 5000])
def test_a_password_is_decrypted_as_it_was_encrypted(password: str) -> None:
    text = encrypt(password)
    assert is_encrypted(text)
    assert decrypt_password(text, SECRET) == password
    assert not password or password not in text


def test_each_text_has_its_own_salt_and_initialization_vector() -> None:
    rng = Random(1)
    texts = {
        encrypt_password("hush", SECRET, iterations=1024, randbytes=rng.randbytes) for _ in range(3)
    }
    assert len(texts) == 3


def test_another_secret_or_a_changed_text_is_refused_without_details() -> None:
    text = encrypt("hush")
    damaged = [
        text.replace("encryptedPassword:", "encryptedPassword:AAAA"),
        text.replace("iterations:1024", "iterations:1023"),
        text.replace("iterations:1024", "iterations:100000000000"),
        text.replace("keyLength:256", "keyLength:8"),
        text.replace("passwordLength:4", "passwordLength:5"),
        text.replace("AES/GCM/NoPadding", "AES/ECB/NoPadding"),
        text.replace("initializationVector", "iv"),
        "encryptedPassword:x,cipherAlgorithm:y",
        "",
    ]
    with pytest.raises(UndecodablePassword):
        decrypt_password(text, SECRET + "!")
    for each in damaged:
        with pytest.raises(UndecodablePassword) as caught:
            decrypt_password(each, SECRET)
        assert "hush" not in str(caught.value)


def test_plain_text_is_not_taken_for_an_encrypted_password() -> None:
    assert not any(map(is_encrypted, ["", "hush", "a:b,c:d", "encryptedPassword"]))
