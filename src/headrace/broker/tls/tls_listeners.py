"""The TLS contexts of a broker's listeners: built at the start, replaced while the broker runs.

Guarantees: a connection that is accepted after a change of settings or files uses the newest valid
context; open connections are not affected. New stores replace the current ones only after a
handshake with them has succeeded. A store that cannot be used changes nothing, and the log has the
reason. The key store of a running listener keeps its subject and its host names, unless
`ssl.allow.dn.changes` and `ssl.allow.san.changes` say otherwise.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.network.dispatch import Handle
from headrace.broker.network.server import Server
from headrace.broker.runtime.errors import StartupError
from headrace.broker.runtime.offload import Offload
from headrace.broker.tls.certificate_authentication import CertificateAuthentication
from headrace.broker.tls.certificate_expiry import ExpiryLog
from headrace.broker.tls.tls_context import (
    InvalidTls,
    TlsMaterial,
    client_context,
    read_stores,
    server_context,
)
from headrace.broker.tls.tls_handshakes import TlsHandshake, TlsHandshakes
from headrace.broker.tls.tls_self_check import check_handshake, check_identity
from headrace.broker.tls.tls_transport import TlsTransport
from headrace.clock import Clock
from headrace.cluster.configs.config_def import InvalidConfig
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.listener_settings import listener_prefix
from headrace.cluster.listeners import Listener
from headrace.cluster.settings import BrokerSettings
from headrace.cluster.tls_settings import check_tls_stores, read_tls_settings
from headrace.log_event import write_events
from headrace.protocol.api import ApiSpec
from headrace.security.tls.tls_settings import TlsSettings

log = logging.getLogger(__package__)


class TlsHost(Protocol):
    """The part of the broker that its TLS listeners use."""

    node_id: int
    settings: BrokerSettings
    server: Server
    offload: Offload
    loop: asyncio.AbstractEventLoop
    clock: Clock

    @property
    def is_member(self) -> bool: ...

    @property
    def metadata(self) -> Metadata: ...


class FileState(NamedTuple):
    """A file changes in one of these."""

    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class ActiveTls:
    """The contexts that a listener uses, and the state of their files before they were read."""

    material: TlsMaterial
    server: ssl.SSLContext
    client: ssl.SSLContext | None
    """For connections to other brokers, if this is the listener of the brokers."""
    files: Mapping[str, FileState | None]


class TlsListeners:
    """The listeners of one broker that use TLS."""

    def __init__(self, host: TlsHost) -> None:
        self._host = host
        settings = host.settings
        self._listeners = {each.name: each for each in settings.tls_listeners}
        self._inter_broker = settings.inter_broker_listener.name if host.is_member else None
        self._active: dict[str, ActiveTls] = {}
        self._handshakes = TlsHandshakes(host.loop)
        self._effective: EffectiveConfig | None = None
        self._problems: dict[str, str] = {}
        self._expiry_log = ExpiryLog()
        self._lock = asyncio.Lock()
        self._reloading: set[asyncio.Task[None]] = set()

    # --- start ----------------------------------------------------------------------------------

    async def open(self, effective: EffectiveConfig) -> None:
        """Builds the contexts of all listeners that have stores; raises `StartupError`.

        A member of a cluster learns its dynamic settings, which may name the stores, only when it
        has joined.
        """
        self._effective = effective
        for listener in self._listeners.values():
            try:
                settings = read_tls_settings(listener, effective.listener(listener.name))
                if settings.keystore.is_set:
                    check_tls_stores(settings)
                    self._use(listener, await self._host.offload(self._build, settings))
            except (InvalidTls, InvalidConfig) as error:
                raise StartupError(str(error)) from error

    async def open_all(self, effective: EffectiveConfig) -> None:
        """Builds the missing contexts before the first accept; raises `StartupError`."""
        missing = [each for name, each in self._listeners.items() if name not in self._active]
        await self.open(effective)
        for listener in missing:
            if listener.name not in self._active:
                try:
                    check_tls_stores(read_tls_settings(listener, effective.listener(listener.name)))
                except InvalidConfig as error:
                    raise StartupError(str(error)) from error

    # --- connections ----------------------------------------------------------------------------

    def start_handshake(
        self,
        listener: str,
        connected: socket.socket,
        complete: Callable[[TlsTransport], None],
        failed: Callable[[str], None],
    ) -> TlsHandshake:
        """Starts the handshake of an accepted socket with the newest context."""
        return self._handshakes.start(connected, self._active[listener].server, complete, failed)

    def server_context(self, listener: str) -> ssl.SSLContext | None:
        """The newest context for the connections of a listener; None before it has stores."""
        active = self._active.get(listener)
        return None if active is None else active.server

    @property
    def peer_context(self) -> ssl.SSLContext | None:
        """The newest context for connections to other brokers."""
        contexts = (active.client for active in self._active.values())
        return next(filter(None, contexts), None)

    # --- reload ---------------------------------------------------------------------------------

    def settings_changed(self, effective: EffectiveConfig) -> None:
        """Applies the settings of a new image soon."""
        self._effective = effective
        if self._active:
            self._reload_soon()

    async def reload_changed_files(self) -> None:
        """Reloads the stores of which a file has changed."""
        await self._reload(only_changed=True)
        self._log_expiries()

    def _log_expiries(self) -> None:
        in_use = {
            name: certificate
            for name, active in self._active.items()
            if (certificate := active.material.certificate) is not None
        }
        write_events(log, self._expiry_log.update(in_use, self._host.clock.wall_ms()))

    async def reload(self) -> None:
        """Reloads all stores, because an operator asks for it."""
        await self._reload(only_changed=False)

    async def check(self, effective: EffectiveConfig, names: Collection[str]) -> None:
        """Checks settings that are not in effect yet, of which a request sets those with these
        names; raises `InvalidTls` or `InvalidConfig`."""
        for listener in self._listeners.values():
            prefix = listener_prefix(listener.name)
            is_named = any(name.startswith(prefix) for name in names)
            await self._changed(listener, effective, only_changed=True, reads_files=is_named)

    def wrap_handler(self, spec: ApiSpec, handle: Handle) -> Handle:
        """The handler of an API that the controller decides, with a check of this broker's own
        stores."""
        from headrace.broker.tls.alter_tls_stores import CHECKED_APIS, AlterTlsStores

        return (
            AlterTlsStores(self._host, self).wrap(spec, handle)
            if spec.key in CHECKED_APIS
            else handle
        )

    def _reload_soon(self) -> None:
        task = self._host.loop.create_task(self._reload(only_changed=True))
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    async def _reload(self, *, only_changed: bool) -> None:
        async with self._lock:
            for listener in self._listeners.values():
                assert self._effective is not None  # the broker has started
                try:
                    made = await self._changed(listener, self._effective, only_changed=only_changed)
                except (InvalidTls, InvalidConfig) as error:
                    self._log_problem(listener, str(error))
                    continue
                self._problems.pop(listener.name, None)
                if made is not None:
                    self._use(listener, made)
                    log.info("TLS stores are reloaded", extra=_certificate_fields(listener, made))

    def _log_problem(self, listener: Listener, problem: str) -> None:
        """Logs a problem once, not at each check of the files."""
        if self._problems.get(listener.name) != problem:
            self._problems[listener.name] = problem
            log.error(
                "cannot use new TLS stores; the listener keeps the current ones",
                extra={"listener": listener.name, "error": problem},
            )

    async def _changed(
        self,
        listener: Listener,
        effective: EffectiveConfig,
        *,
        only_changed: bool,
        reads_files: bool = True,
    ) -> ActiveTls | None:
        """The contexts of new stores, after a check; None if the stores have not changed."""
        settings = read_tls_settings(listener, effective.listener(listener.name))
        active = self._active.get(listener.name)
        if active is not None:
            # As in Kafka, only the stores of a running listener can change.
            settings = replace(
                active.material.settings, keystore=settings.keystore, truststore=settings.truststore
            )
            if only_changed and settings == active.material.settings:
                if not reads_files:
                    return None
                files = await self._host.offload(_file_states, settings)
                if files == active.files:
                    return None
        check_tls_stores(settings)
        return await self._host.offload(self._build_checked, settings, active)

    def stop(self) -> None:
        for task in self._reloading:
            task.cancel()

    # --- contexts -------------------------------------------------------------------------------

    def _build(self, settings: TlsSettings) -> ActiveTls:
        """Runs in a thread."""
        # Before the files are read: a file that changes meanwhile is read again.
        files = _file_states(settings)
        material = read_stores(settings)
        is_inter_broker = settings.listener == self._inter_broker
        return ActiveTls(
            material,
            server_context(material),
            client_context(material) if is_inter_broker else None,
            files,
        )

    def _build_checked(self, settings: TlsSettings, active: ActiveTls | None) -> ActiveTls:
        """Runs in a thread."""
        made = self._build(settings)
        check_handshake(made.material, verified=made.client is not None)
        if active is not None:
            check_identity(active.material, made.material)
        return made

    def _use(self, listener: Listener, made: ActiveTls) -> None:
        self._active[listener.name] = made
        if not listener.uses_sasl:
            self._host.server.authentications[listener.name] = CertificateAuthentication(
                self._host.server.dispatch,
                made.material.settings.principal_mapping,
                self._host.clock,
            )


def _file_states(settings: TlsSettings) -> dict[str, FileState | None]:
    return {name: _file_state(name) for name in settings.files}


def _file_state(name: str) -> FileState | None:
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return FileState(found.st_ino, found.st_size, found.st_mtime_ns)


def _certificate_fields(listener: Listener, active: ActiveTls) -> dict[str, object]:
    fields: dict[str, object] = {"listener": listener.name}
    certificate = active.material.certificate
    if certificate is not None:
        fields["subject"] = certificate.subject
        fields["not_after"] = certificate.not_after.isoformat()
    return fields
