"""Certificates and keys of clients: every form, and the messages for those that cannot be used."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from headrace.certificate_files import CertificateFiles
from headrace.client.errors import BadSecurityFiles
from headrace.client.login.security import InvalidSecurity, Tls, security_of
from headrace.client.login.tls_context import inlined, tls_context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    files = CertificateFiles(tmp_path_factory.mktemp("certs"))
    files.issue_server()
    files.issue_client("alice")
    return files


def tls_of(settings: dict[str, str]) -> Tls:
    tls = security_of({"security.protocol": "SSL", **settings}).tls
    assert tls is not None
    return tls


def forms(files: CertificateFiles) -> dict[str, dict[str, str]]:
    key, password = files.key("alice").read_text(), files.password
    return {
        "librdkafka": {
            "ssl.ca.location": str(files.ca),
            "ssl.certificate.location": str(files.certificate("alice")),
            "ssl.key.location": str(files.key("alice")),
        },
        "librdkafka, inline": {
            "ssl.ca.pem": files.ca.read_text(),
            "ssl.certificate.pem": files.certificate("alice").read_text(),
            "ssl.key.pem": key,
        },
        "Java, PEM": {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.ca),
            "ssl.keystore.location": str(files.keystore("alice")),
        },
        "Java, inline": {
            "ssl.truststore.certificates": files.ca.read_text(),
            "ssl.keystore.certificate.chain": files.certificate("alice").read_text(),
            "ssl.keystore.key": key,
        },
        "Java, PKCS12": {
            "ssl.truststore.location": str(files.truststore),
            "ssl.truststore.password": password,
            "ssl.keystore.location": str(files.pkcs12("alice")),
            "ssl.keystore.password": password,
        },
    }


FORMS = ("librdkafka", "librdkafka, inline", "Java, PEM", "Java, inline", "Java, PKCS12")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_loaded_and_can_be_sent_to_another_machine(
    files: CertificateFiles, form: str
) -> None:
    tls = tls_of(forms(files)[form])
    there = inlined(tls)
    assert there.ca is there.certificate is there.key is None
    for each in (tls, there):
        context = tls_context(each)
        assert context.cert_store_stats()["x509_ca"] == 1
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
    assert "PRIVATE" not in repr(there)


def test_an_encrypted_key_needs_its_password(files: CertificateFiles, tmp_path: Path) -> None:
    key = load_pem_private_key(files.key("alice").read_bytes(), None)
    encryption = BestAvailableEncryption(b"hush")
    path = tmp_path / "alice.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    tls = Tls(str(files.ca), str(files.certificate("alice")), str(path))
    for password in (None, "wrong"):
        with pytest.raises(BadSecurityFiles, match="password"):
            tls_context(Tls(tls.ca, tls.certificate, tls.key, password))
    tls_context(Tls(tls.ca, tls.certificate, tls.key, "hush"))


def test_a_store_that_cannot_be_used_is_explained(files: CertificateFiles, tmp_path: Path) -> None:
    jks = tmp_path / "a.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed....")
    with pytest.raises(BadSecurityFiles, match=r"a\.jks.*keytool"):
        tls_context(Tls(ca=str(jks)))
    with pytest.raises(BadSecurityFiles, match="password is wrong"):
        tls_context(Tls(ca=str(files.truststore), ca_password="wrong"))
    with pytest.raises(BadSecurityFiles, match="no certificates"):
        tls_context(Tls(ca=str(files.key("alice"))))
    with pytest.raises(BadSecurityFiles, match="private key"):
        tls_context(Tls(certificate=str(files.ca)))


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.certificate.pem": "x"},
        {"ssl.key.pem": "x"},
        {"ssl.key.location": "alice.key"},
    ],
)
def test_half_of_an_identity_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidSecurity):
        tls_of(settings)
