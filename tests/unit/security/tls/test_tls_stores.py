"""Stores are recognised by their contents."""

import pytest

from headrace.security.tls.tls_stores import (
    InvalidStore,
    StoreFormat,
    pem_certificates,
    pem_key_store,
    read_key_store,
    read_trust_store,
    store_format,
)
from support.security.certificates import CertificateAuthority


def test_pem_may_be_written_in_one_line(authority: CertificateAuthority) -> None:
    issued = authority.issue("a")
    one_line = issued.chain.replace("\n", " ")
    assert pem_certificates(one_line) == issued.chain
    assert pem_key_store(issued.key.replace("\n", ""), one_line) == (issued.key, issued.chain)


def test_texts_around_the_blocks_are_ignored(authority: CertificateAuthority) -> None:
    text = f"Bag Attributes\n  Größe: 1\n{authority.ca}\n# end"
    assert read_trust_store(text.encode(), None) == authority.ca


def test_a_pkcs12_store_has_the_key_and_the_chain(authority: CertificateAuthority) -> None:
    issued = authority.issue("a")
    contents = issued.pkcs12("hush").read_bytes()
    assert store_format(contents) is StoreFormat.PKCS12
    assert read_key_store(contents, "hush") == (issued.key, issued.chain)
    assert authority.ca in read_trust_store(contents, "hush")
    for password in ("other", None, ""):
        with pytest.raises(InvalidStore, match="password is wrong, or it is damaged"):
            read_key_store(contents, password)


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (b"\xfe\xed\xfe\xed\0\0", "keytool -importkeystore"),
        (b"", "neither PEM nor PKCS #12"),
        (b"hello", "neither PEM nor PKCS #12"),
        (b"0\x82", "password is wrong, or it is damaged"),
        (b"-----BEGIN X-----\n", "expected one private key, found 0"),
    ],
)
def test_another_file_is_refused(contents: bytes, words: str) -> None:
    with pytest.raises(InvalidStore, match=words):
        read_key_store(contents, None)


def test_a_store_without_certificates_is_refused(authority: CertificateAuthority) -> None:
    issued = authority.issue("a")
    with pytest.raises(InvalidStore, match="no certificates"):
        read_trust_store(issued.key.encode(), None)
    with pytest.raises(InvalidStore, match="expected one private key, found 2"):
        pem_key_store(issued.key * 2, issued.chain)


def test_a_key_is_in_no_repr(authority: CertificateAuthority) -> None:
    issued = authority.issue("a")
    store = pem_key_store(issued.key, issued.chain)
    assert issued.key.splitlines()[1] not in repr(store)
