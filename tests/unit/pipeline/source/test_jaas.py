"""Logins in sasl.jaas.config, as Java clients write them."""

import pytest

from headrace.pipeline.source.jaas import credentials_of

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def test_user_name_and_password_are_read_without_their_quoting() -> None:
    text = SCRAM + r' username="al\"ice" password = "p;a\\ss";'
    assert credentials_of(text) == {"sasl.username": 'al"ice', "sasl.password": r"p;a\ss"}


@pytest.mark.parametrize("written", ['tokenauth="true"', "tokenauth=true"])
def test_a_login_with_a_delegation_token_is_recognized(written: str) -> None:
    found = credentials_of(f'{SCRAM} username="id" password="hmac" {written};')
    assert found == {"sasl.username": "id", "sasl.password": "hmac", "sasl.tokenauth": "true"}


def test_a_configuration_without_a_login_gives_nothing() -> None:
    assert credentials_of("") == {}
    assert credentials_of("com.example.Module required;") == {}
