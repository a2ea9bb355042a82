"""Certificates for development: what OpenSSL and Java accept, and the modes of the files."""

import shutil
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from headrace.certificate_files import CertificateFiles, CertificatesUnavailable

DAY_MS = 86_400_000


class At:
    """A clock that stands still."""

    def __init__(self, wall_ms: int) -> None:
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    files = CertificateFiles(tmp_path / "certs")
    files.issue_server(["kafka.example.com", "10.0.0.7"])
    files.issue_client("alice")
    return files


def handshake(files: CertificateFiles, host: str, client: str | None = "alice") -> str:
    """The client's subject as the server sees it, after a handshake in memory."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.ca))
    server.load_cert_chain(files.keystore())
    server.verify_mode = ssl.CERT_REQUIRED
    ours = ssl.create_default_context(cafile=str(files.ca))
    ours.verify_flags |= ssl.VERIFY_X509_STRICT
    server.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        ours.load_cert_chain(files.certificate(client), files.key(client))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    left = ours.wrap_bio(back, there, server_hostname=host)
    right = server.wrap_bio(there, back, server_side=True)
    for _ in range(4):
        for side in (left, right):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return str(right.getpeercert())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "kafka.example.com", "10.0.0.7"])
def test_both_sides_trust_each_other_under_every_name(files: CertificateFiles, host: str) -> None:
    assert "alice" in handshake(files, host)


def test_another_name_or_a_missing_client_certificate_fails(files: CertificateFiles) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(files, "evil.example.com")
    with pytest.raises(ssl.SSLError):
        handshake(files, "localhost", client=None)


def test_a_client_certificate_is_not_valid_for_a_server(files: CertificateFiles) -> None:
    found = x509.load_pem_x509_certificate(files.certificate("alice").read_bytes())
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.ExtendedKeyUsageOID.CLIENT_AUTH]
    assert found.subject.rfc4514_string() == "CN=alice"


def test_a_certificate_is_valid_for_397_days(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path, At(20_000 * DAY_MS))
    files.issue_server()
    found = x509.load_pem_x509_certificate(files.certificate().read_bytes())
    assert (found.not_valid_after_utc - found.not_valid_before_utc).days == 397


def test_only_the_owner_can_read_keys_and_passwords(files: CertificateFiles) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.folder.iterdir()}
    public = {"ca.pem", "server.pem", "alice.pem"}
    assert {name for name, mode in modes.items() if mode != 0o600} == public
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700


def test_java_key_stores_open_with_the_written_password(files: CertificateFiles) -> None:
    store = pkcs12.load_pkcs12(files.pkcs12("alice").read_bytes(), files.password.encode())
    assert store.cert is not None
    assert store.cert.certificate.subject.rfc4514_string() == "CN=alice"


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs Java")
def test_keytool_finds_the_ca_in_the_trust_store(files: CertificateFiles) -> None:
    words = ["keytool", "-list", "-keystore", str(files.truststore), "-storepass", files.password]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert "trustedCertEntry" in done.stdout


def test_a_renewed_certificate_has_another_key_and_the_same_ca(files: CertificateFiles) -> None:
    ca, key = files.ca.read_bytes(), files.key().read_bytes()
    files.issue_server()
    assert files.ca.read_bytes() == ca
    assert files.key().read_bytes() != key
    assert "alice" in handshake(files, "kafka.example.com")


NOT_NAMES = ["", "ca", "server", "server.keystore", "a/b", "..", "x" * 65]


@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_name_that_is_no_file_or_subject_is_refused(files: CertificateFiles, name: str) -> None:
    before = files.ca.read_bytes(), files.certificate().read_bytes()
    with pytest.raises(CertificatesUnavailable):
        files.issue_client(name)
    assert (files.ca.read_bytes(), files.certificate().read_bytes()) == before


def test_a_server_certificate_is_kept_until_a_month_before_its_end(tmp_path: Path) -> None:
    def files(day: int) -> CertificateFiles:
        return CertificateFiles(tmp_path, At((20_000 + day) * DAY_MS))

    files(0).ensure_server(["a.example.com"])
    first = files(0).key().read_bytes()
    files(360).ensure_server()
    assert files(0).key().read_bytes() == first
    files(370).ensure_server()
    renewed = files(0).key().read_bytes()
    assert renewed != first
    files(370).ensure_server(["b.example.com"])
    assert files(0).key().read_bytes() != renewed
    assert {"a.example.com", "b.example.com"} <= {*hosts_of(files(0))}


def hosts_of(files: CertificateFiles) -> list[str]:
    found = x509.load_pem_x509_certificate(files.certificate().read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each.value) for each in names]


def test_without_cryptography_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "headrace.security.tls.development_ca", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for act in (CertificateFiles.ensure_server, CertificateFiles.issue_server):
        with pytest.raises(CertificatesUnavailable, match=r"headrace\[security\]"):
            act(CertificateFiles(tmp_path / "certs"))
    with pytest.raises(CertificatesUnavailable, match=r"headrace\[security\]"):
        CertificateFiles(tmp_path / "certs").issue_client("alice")


def test_a_damaged_ca_is_never_replaced(files: CertificateFiles) -> None:
    key = files.folder / "ca.key"
    key.write_text("nonsense")
    with pytest.raises(CertificatesUnavailable, match="damaged"):
        files.issue_client("bob")
    key.unlink()
    with pytest.raises(CertificatesUnavailable, match="without ca"):
        files.issue_client("bob")
