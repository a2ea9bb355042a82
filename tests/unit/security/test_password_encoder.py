"""Passwords are encrypted in Kafka's format, and only the right secret decrypts them."""

from random import Random

import pytest

from headrace.security.password_encoder import (
    UndecodablePassword,
    decrypt_password,
    encrypt_password,
    is_encrypted,
)

SECRET = "the secret"
# The password "hush", encrypted by Apache Kafka 3.9.1 with this secret.
GCM_BY_KAFKA = (
    "initializationVector:sCBbbGCqfCRilHRP,keyLength:128,salt:wr8u8y0DD6yzlVpFNcOe8z6Y229SJkJ"
    "109kCbxXHdySrEy7vv2XPTIgRFE6hlhMXIMKn/JSfcwklb0xjbN1MmzjSlUwSxNOMCTOP7F7iRsqtZb0Ay2ktYBc"
    "KbB61GxgBxWu2H1PbSY93I19iWfm1BmK7Of+VJtshDBXs6ewgNp1TOXIsDg0DUGDfXsGjjrtiSkdqIamVMMg5jgF"
    "UnLBYNolivEGaO9N4Si4ZXsUVDt4UZgjWSN0dQQVWHueeVu6b1eM9DB3ln3VQ0p6vBjkxCQQeZvmF2eP1BtRtgih"
    "DBd7NdnkF771juvVIm0aWJ+gxSF9+7nIp9Nnxk3rGIBWoWg==,keyFactoryAlgorithm:PBKDF2WithHmacSHA5"
    "12,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:128,iterations:4096,passwor"
    "dLength:4,encryptedPassword:CmacWJ8qq8KtSTwsB9UkqH1uUec="
)
CBC_BY_KAFKA = (
    "initializationVector:VVJnpDOJe/lEuqPaQkLVGw==,keyLength:128,salt:FDLxf0CHFge9oEmBw3/6Uog"
    "pzNd2Fx/rFWv6w6/9LMlPfbIXTMKq22JOH4M0ImXakmrAV0dj00k5+tKDVuu3k7SxPrwSW3E13qEumnGglOtG2sS"
    "kqfoYUzauef64Owk2cs1ddQ79UZ8TosWbXoV0fL1uXagSyaMdFjma4Ai7Opn8RkqPbhNb/EdTStgjq6ldTeZwk+K"
    "DOZCVWJkFCn/U0o0I+Y0ubvcsniBcaDrF82PRMzSfX7lNbRWwgxUFq0KsSoOW3Guq4B4hSMoSHADdx+gt9Hz855t"
    "INjh8ctkFrlCNlOjtnlkNJAGaguGrNCAozlwL/BKmn/y+Be+j4QHXpg==,keyFactoryAlgorithm:PBKDF2With"
    "HmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:4,encrypt"
    "edPassword:yT+ZpBWKJFV2NPhYl6JSMw=="
)


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


@pytest.mark.parametrize("text", [GCM_BY_KAFKA, CBC_BY_KAFKA])
def test_passwords_that_kafka_encrypted_are_decrypted(text: str) -> None:
    assert is_encrypted(text)
    assert decrypt_password(text, SECRET) == "hush"
    with pytest.raises(UndecodablePassword):
        decrypt_password(text, "another secret")
