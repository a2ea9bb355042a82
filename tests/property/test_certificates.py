"""No bytes that a client sends as its certificate, and no damaged store, break the readers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.security.tls.certificate import read_certificate
from headrace.security.tls.der import InvalidDer, read_elements
from headrace.security.tls.tls_stores import InvalidStore, read_key_store
from support.security.certificates import CertificateAuthority

ANY_SIZE = st.integers(0, 10_000)


@given(st.binary(max_size=200))
def test_any_bytes_are_elements_or_refused(data: bytes) -> None:
    with suppress(InvalidDer):
        assert b"".join(element.encoded for element in read_elements(data)) == data


@pytest.fixture(scope="module")
def der(authority: CertificateAuthority) -> bytes:
    return authority.issue("alice", organization="Example").der


@given(changes=st.lists(st.tuples(ANY_SIZE, st.integers(0, 255)), max_size=6), end=ANY_SIZE)
def test_a_changed_certificate_is_read_or_refused(
    der: bytes, changes: list[tuple[int, int]], end: int
) -> None:
    changed = bytearray(der)
    for at, byte in changes:
        changed[at % len(changed)] = byte
    with suppress(InvalidDer):
        read_certificate(bytes(changed[: end or len(changed)]))


@pytest.fixture(scope="module")
def pkcs12(authority: CertificateAuthority) -> bytes:
    return authority.issue("alice").pkcs12("hush").read_bytes()


@given(changes=st.lists(st.tuples(ANY_SIZE, st.integers(0, 255)), max_size=4), end=ANY_SIZE)
def test_a_damaged_pkcs12_store_is_read_or_refused(
    pkcs12: bytes, changes: list[tuple[int, int]], end: int
) -> None:
    changed = bytearray(pkcs12)
    for at, byte in changes:
        changed[at % len(changed)] = byte
    with suppress(InvalidStore):
        read_key_store(bytes(changed[: end or len(changed)]), "hush")
