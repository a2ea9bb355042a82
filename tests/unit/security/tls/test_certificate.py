"""The parts of a certificate that a broker reads itself."""

import datetime as dt

import pytest

from headrace.security.tls.certificate import read_certificate
from headrace.security.tls.der import InvalidDer
from support.security.certificates import CertificateAuthority


def test_subject_end_and_other_names_are_those_of_the_certificate(
    authority: CertificateAuthority,
) -> None:
    issued = authority.issue("alice", sans=["localhost", "127.0.0.1"], organization="Example")
    read = read_certificate(issued.der)
    assert read.subject == "O=Example,CN=alice"
    assert read.alternative_names == {b"\x82\x09localhost", b"\x87\x04\x7f\x00\x00\x01"}
    assert dt.timedelta(days=29) < read.not_after - dt.datetime.now(dt.UTC)


def test_a_certificate_without_other_names_has_none(authority: CertificateAuthority) -> None:
    assert read_certificate(authority.issue("alice", sans=[]).der).alternative_names == frozenset()


def test_a_cut_certificate_is_refused(authority: CertificateAuthority) -> None:
    der = authority.issue("alice").der
    for size in range(0, len(der), 7):
        with pytest.raises(InvalidDer):
            read_certificate(der[:size])
