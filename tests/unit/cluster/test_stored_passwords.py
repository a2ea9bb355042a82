"""Passwords of dynamic settings are stored encrypted, and decrypted only where they are used."""

import logging
from random import Random

import pytest

from headrace.cluster.stored_passwords import (
    NoPasswordSecret,
    is_password,
    stored_password,
    with_clear_passwords,
)

NEW = {"password.encoder.secret": "new", "password.encoder.iterations": "1024"}
OLD = {"password.encoder.secret": "old", "password.encoder.iterations": "1024"}
NAME = "listener.name.secure.ssl.keystore.password"


def stored(password: str, static: dict[str, str]) -> dict[str, str]:
    return {NAME: stored_password(password, static, Random(1)), "log.retention.ms": "5"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (NAME, True),
        ("listener.name.secure.ssl.keystore.key", True),
        ("listener.name.secure.plain.sasl.jaas.config", True),
        ("ssl.key.password", True),
        ("listener.name.secure.ssl.keystore.location", False),
        ("unknown.password", False),
    ],
)
def test_passwords_are_known_with_the_prefixes_of_listeners(name: str, expected: bool) -> None:
    assert is_password(name) is expected


def test_a_password_is_decrypted_with_the_secret_of_the_broker() -> None:
    values = stored("hush", NEW)
    assert "hush" not in values[NAME]
    assert with_clear_passwords(values, NEW) == {NAME: "hush", "log.retention.ms": "5"}


def test_a_password_can_be_decrypted_while_the_secret_is_replaced() -> None:
    rotating = {**NEW, "password.encoder.old.secret": "old"}
    for static in (OLD, NEW):
        assert with_clear_passwords(stored("hush", static), rotating)[NAME] == "hush"


@pytest.mark.parametrize("static", [OLD, {}])
def test_a_password_that_no_secret_decrypts_is_left_out_and_logged_once(
    static: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    values = stored(f"hush{len(static)}", NEW)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert with_clear_passwords(values, static) == {"log.retention.ms": "5"}
    (record,) = caplog.records
    assert NAME in record.getMessage()
    assert "hush" not in record.getMessage()


def test_a_password_of_a_version_that_did_not_encrypt_is_used_as_it_is() -> None:
    values = {NAME: "hush"}
    assert with_clear_passwords(values, NEW) is values
    assert with_clear_passwords(values, {}) is values


def test_without_a_secret_no_password_is_stored() -> None:
    with pytest.raises(NoPasswordSecret, match=r"set password\.encoder\.secret"):
        stored_password("hush", {}, Random(1))
