"""The options of TLS contexts."""

import ssl

from headrace.broker.tls.tls_context import read_stores, server_context
from headrace.security.tls.tls_settings import StoreSettings, TlsSettings
from support.security.certificates import CertificateAuthority


def test_clients_cannot_renegotiate(authority: CertificateAuthority) -> None:
    keystore = StoreSettings(location=str(authority.issue("broker").keystore_file))
    context = server_context(read_stores(TlsSettings("SSL", keystore)))
    assert context.options & ssl.OP_NO_RENEGOTIATION
