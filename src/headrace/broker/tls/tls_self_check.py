"""Checks new TLS stores before a running listener uses them, with a handshake in memory."""

import ssl
from dataclasses import replace
from typing import Final

from headrace.broker.tls.tls_context import (
    InvalidTls,
    TlsMaterial,
    client_context,
    server_context,
)
from headrace.security.tls.tls_settings import ClientAuth

_STEPS: Final = 8
"""A handshake needs three; more would be a loop."""


def check_handshake(material: TlsMaterial, *, verified: bool) -> None:
    """Connects to itself; raises `InvalidTls`.

    With `verified` as the brokers of a cluster do: both sides trust the trust store. Otherwise only
    the listener's own certificate is checked, because its clients may have another issuer.
    """
    if not verified:
        assert material.key_store is not None  # a listener has one
        alone = replace(material.settings, client_auth=ClientAuth.NONE)
        material = replace(material, settings=alone, trusted=material.key_store.chain)
    listener = material.settings.listener
    client, server = client_context(material), server_context(material)
    client.check_hostname = False
    try:
        _handshake(client, server)
    except ssl.SSLCertVerificationError as error:
        raise InvalidTls(
            f"listener {listener}: the certificate is not accepted: {error.verify_message}"
        ) from error
    except ssl.SSLError as error:
        raise InvalidTls(
            f"listener {listener}: a handshake with the new stores failed: {error.reason}"
        ) from error


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_STEPS):
        waiting = [side for side in sides if not _is_complete(side)]
        if not waiting:
            return
    raise ssl.SSLError("the handshake did not end")


def _is_complete(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def check_identity(before: TlsMaterial, after: TlsMaterial) -> None:
    """Refuses a certificate of another owner; raises `InvalidTls`."""
    old, new, settings = before.certificate, after.certificate, after.settings
    if old is None or new is None:
        return
    if old.subject != new.subject and not settings.allows_subject_change:
        raise InvalidTls(
            f"listener {settings.listener}: the subject of the certificate changes from "
            f"{old.subject!r} to {new.subject!r}; ssl.allow.dn.changes=true allows it"
        )
    if not new.alternative_names >= old.alternative_names and not settings.allows_host_change:
        raise InvalidTls(
            f"listener {settings.listener}: the new certificate lacks host names of the current "
            "one; ssl.allow.san.changes=true allows it"
        )
