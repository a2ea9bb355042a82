"""The authentication of a broker to ZooKeeper: TLS, digest, SASL."""

import ssl

from headrace.cluster.metadata_store import StoreError
from headrace.cluster.stores.zookeeper_settings import (
    DIGEST,
    SASL,
    ZooKeeperSettings,
    ZooKeeperTls,
)


def tls_context(tls: ZooKeeperTls) -> ssl.SSLContext:
    """The TLS context; raises `StoreError` if a file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = sorted(ssl.TLSVersion[name.replace(".", "_")] for name in tls.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.check_hostname = tls.check_host
    try:
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        if tls.truststore is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(tls.truststore)
        if tls.keystore is not None:
            # Without a password, OpenSSL would ask for it on the terminal.
            context.load_cert_chain(tls.keystore, password=tls.keystore_password or "")
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot set up TLS to ZooKeeper: {error}; check zookeeper.ssl.*"
        ) from error
    return context


def auth_data(settings: ZooKeeperSettings) -> set[tuple[str, str]]:
    if settings.auth != DIGEST:
        return set()
    return {("digest", f"{settings.username}:{settings.password}")}


def sasl_options(settings: ZooKeeperSettings) -> dict[str, str] | None:
    if settings.auth != SASL:
        return None
    from importlib.util import find_spec

    if find_spec("puresasl") is None:
        raise StoreError("SASL to ZooKeeper needs a library: pip install 'kazoo[sasl]'")
    return {
        "mechanism": "DIGEST-MD5",
        "username": settings.username,
        "password": settings.password,
    }
