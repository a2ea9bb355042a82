"""Cipher suites by IANA's names."""

import ssl

import pytest

from headrace.security.tls.cipher_suites import (
    TLS_1_3,
    UnknownCipherSuite,
    UnsupportedCipherSuites,
    choose_cipher_suites,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_RSA_WITH_AES_256_CCM_8", "AES256-CCM8"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
    ],
)
def test_a_suite_of_tls_1_2_has_openssls_name(name: str, expected: str) -> None:
    chosen = choose_cipher_suites([name])
    assert chosen == ((expected,), False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(expected)
    assert expected in {each["name"] for each in context.get_ciphers()}


def test_tls_1_3_is_offered_with_all_of_its_suites_or_not_at_all() -> None:
    assert choose_cipher_suites(sorted(TLS_1_3)) == ((), True)
    with pytest.raises(UnsupportedCipherSuites, match="name all of"):
        choose_cipher_suites(["TLS_AES_256_GCM_SHA384"])


@pytest.mark.parametrize("name", ["", "ECDHE-RSA-AES128-SHA", "TLS_NULL_WITH_NULL_NULL", "!aNULL"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(UnknownCipherSuite):
        choose_cipher_suites([name])
