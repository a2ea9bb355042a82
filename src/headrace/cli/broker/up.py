"""`headrace up` and `headrace broker start`: run one broker in the foreground.

The first signal stops the broker gracefully, with exit code 0. A second signal ends the process at
once, with the shell's exit code for that signal. A failed start is one sentence on stderr and exit
code 1. If only a change of the settings helps, `broker start` exits with code 2, so that a service
manager does not restart it. A broker that loses its last log directory exits with code 1.

SIGHUP stops a broker, too, unless it has TLS listeners and no terminal: then it reads their stores
again. Under systemd (Type=notify), SIGHUP never stops a broker: `systemctl reload` sends it.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.broker.node import Broker
from headrace.broker.runtime.environment import Environment
from headrace.broker.runtime.errors import StartupError, StopTimedOut
from headrace.cli.broker.banner import serves, welcome
from headrace.cli.broker.options import DEFAULT_HOST, DEFAULT_PORT, UpOptions, http_listener
from headrace.cli.broker.sd_notify import notify_systemd, systemd_listens
from headrace.cluster.java_properties import BadProperties, read_properties
from headrace.cluster.settings import BrokerSettings, InvalidSetting
from headrace.log_formatters import LogFormat, configure
from headrace.log_levels import LEVELS
from headrace.process_tuning import collect_rarely, keep_freed_memory, loop_factory

if TYPE_CHECKING:
    from headrace.broker.tls.tls_listeners import TlsListeners
    from headrace.cli.broker.console_process import ConsoleProcess

FAILED = 1
WRONG_SETTINGS = 2
SIGNALLED = 128  # the shell's exit code for a process ended by a signal is 128 plus its number


class BadCommand(Exception):
    """The options or the settings cannot be used; the message says what to change."""


def up(options: UpOptions) -> int:
    """Runs a broker until a signal stops it."""
    default_level = logging.INFO if options.verbose else logging.WARNING
    configure(log_format=options.log_format or "text", level=default_level)
    temporary = None
    try:
        temporary = _temporary_directory() if options.ephemeral else None
        settings = settings_of(options, temporary)
        _configure_log(options, settings, default_level)
        _make_directories(settings.log_dirs)
        keeps = None if temporary else settings.log_dirs
        environment = Environment()

        def greeting(broker: Broker) -> str:
            return welcome(broker.bootstrap_servers, keeps, _http_address(broker))

        if options.secure:
            from headrace.certificate_files import CertificatesUnavailable
            from headrace.cli.broker.secure import SecuredNode

            secured = SecuredNode(settings, keeps)
            try:
                environment = secured.prepare(environment)
            except CertificatesUnavailable as error:
                raise BadCommand(str(error)) from error
            greeting = secured.greeting
        start_console = None
        if options.console:
            start_console = _console_starter(options, secured.client if options.secure else None)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(
                _serve_until_stopped(settings, temporary, greeting, environment, start_console)
            )
    except (BadCommand, InvalidSetting, StartupError) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return FAILED
    finally:
        _remove_directory(temporary)


def _console_starter(
    options: UpOptions, client_file: Path | None
) -> "Callable[[Broker], ConsoleProcess]":
    """Starts the console once the broker serves; `client_file` has TLS settings for its clients.

    A broker on a free port has a console on a free port.
    """
    from importlib.util import find_spec

    from headrace.cli.broker.console_process import ConsoleProcess

    if find_spec("starlette") is None:
        raise BadCommand(
            "--console needs packages that are not installed: pip install 'headrace[console]'"
        )

    def begin(broker: Broker) -> ConsoleProcess:
        return ConsoleProcess(
            broker.bootstrap_servers,
            None if client_file is None else _read_file(client_file),
            listen="127.0.0.1:0" if options.port == 0 else None,
        )

    return begin


def start(options: UpOptions) -> int:
    """Runs the broker of a settings file until a signal stops it."""
    default_level = logging.DEBUG if options.verbose else logging.INFO
    configure(log_format=options.log_format or "text", level=default_level)
    try:
        written = _given_settings(options)
        settings = BrokerSettings.parse(written)
        _check_deployment(settings)
        _configure_log(options, settings, default_level)
    except (BadCommand, InvalidSetting) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return WRONG_SETTINGS
    try:
        _make_directories(settings.log_dirs, "correct log.dirs")
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(
                _serve_until_stopped(
                    settings,
                    None,
                    lambda broker: serves(
                        broker.node_id, broker.bootstrap_servers, _http_address(broker)
                    ),
                )
            )
    except (BadCommand, StartupError) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return FAILED


def _configure_log(options: UpOptions, settings: BrokerSettings, default_level: int) -> None:
    """Applies the settings of the log; the options override them."""
    level = None if options.verbose else settings.string("headrace.log.level")
    log_format = options.log_format or settings.string("headrace.log.format")
    configure(
        log_format=cast("LogFormat", log_format),
        level=default_level if level is None else LEVELS[level],
    )


def _check_deployment(settings: BrokerSettings) -> None:
    """Checks settings that have to be explicit, because a default would hide a mistake."""
    if not settings.log_dirs:
        raise BadCommand("log.dirs is not set; set it to a directory for the broker's topics")
    if not settings.string("zookeeper.connect"):
        return
    from importlib.util import find_spec

    if find_spec("kazoo") is None:
        raise BadCommand(
            "a broker of a cluster needs kazoo, which is not installed: "
            "pip install 'headrace[cluster]'"
        )
    from headrace.cluster.stores.zookeeper_settings import ZooKeeperSettings

    ZooKeeperSettings.of(settings)


def settings_of(options: UpOptions, temporary: Path | None) -> BrokerSettings:
    """The settings of the file, overridden by --set, overridden by the other options."""
    values = _given_settings(options)
    if options.secure and "listeners" in values:
        raise BadCommand(
            "--secure chooses the listener; use --host and --port instead of listeners"
        )
    if options.host is not None or options.port is not None or "listeners" not in values:
        host = DEFAULT_HOST if options.host is None else options.host
        port = DEFAULT_PORT if options.port is None else options.port
        protocol = "SASL_SSL" if options.secure else "PLAINTEXT"
        values["listeners"] = f"{protocol}://{f'[{host}]' if ':' in host else host}:{port}"
    chosen = temporary or options.data
    if chosen is not None:
        values["log.dirs"] = str(chosen.absolute())
        values.pop("log.dir", None)
    elif not values.keys() & {"log.dirs", "log.dir"}:
        values["log.dirs"] = str(data_folder())
    if options.secure:
        from headrace.cli.broker.secure import secure_settings

        values = secure_settings(values) | values
    return BrokerSettings.parse(values)


def _given_settings(options: UpOptions) -> dict[str, str]:
    values = _read_file(options.config) if options.config is not None else {}
    for setting in options.set:
        name, _, value = setting.partition("=")
        values[name.strip()] = value.strip()
    if options.http is not None:
        values["headrace.http.listener"] = http_listener(options.http) or ""
    return values


def _http_address(broker: Broker) -> str | None:
    """The URL of the HTTP port, if there is one."""
    return None if broker.http is None else broker.http.address


def _make_directories(paths: Sequence[str], remedy: str = "choose a directory with --data") -> None:
    for path in paths:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
            reason = None if os.access(path, os.R_OK | os.W_OK | os.X_OK) else "not writable"
        except FileExistsError:
            reason = "it is not a directory"
        except OSError as error:
            reason = error.strerror or str(error)
        if reason is not None:
            msg = f"cannot store topics in {path}: {reason}; {remedy}"
            raise BadCommand(msg)


def _read_file(path: Path) -> dict[str, str]:
    try:
        return read_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadCommand(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadCommand(f"{path} is not UTF-8 text (byte {error.start})") from error
    except BadProperties as error:
        raise BadCommand(f"{path}: {error}") from error


def data_folder() -> Path:
    """The default data directory of the operating system's conventions."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "headrace"
    chosen = os.environ.get("XDG_DATA_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".local" / "share"
    return base / "headrace"


async def _serve_until_stopped(
    settings: BrokerSettings,
    temporary: Path | None,
    greeting: Callable[[Broker], str],
    environment: Environment | None = None,
    start_console: "Callable[[Broker], ConsoleProcess] | None" = None,
) -> int:
    broker = Broker(settings, environment=environment, ephemeral=temporary is not None)
    stop_requested = asyncio.Event()
    _handle_signals(stop_requested, temporary)
    await broker.start()
    if systemd_listens() or (broker.tls is not None and not (sys.stdin and sys.stdin.isatty())):
        _reload_on_hangup(broker.tls)
    _print(greeting(broker))
    console = None if start_console is None else start_console(broker)
    notify_systemd("READY=1")
    keep_freed_memory()
    collect_rarely()
    await broker.wait_until_ended(asyncio.create_task(stop_requested.wait()))
    notify_systemd("STOPPING=1")
    if console is not None:
        await asyncio.to_thread(console.stop)
    if broker.ended.done():  # the broker has logged the reason
        # A normal exit would wait for threads that are blocked on the disk.
        _remove_directory(temporary)
        os._exit(FAILED)
    try:
        await broker.stop()
    except StopTimedOut as error:
        sys.stderr.write(f"headrace: {error}; the next start will recover them\n")
        # A normal exit would wait for the threads.
        _remove_directory(temporary)
        os._exit(FAILED)
    return FAILED if broker.ended.done() else 0


def _handle_signals(stop_requested: asyncio.Event, temporary: Path | None) -> None:
    loop = asyncio.get_running_loop()

    def first() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, second)  # runs even while the loop is busy
        stop_requested.set()
        _print("Stopping. Press Ctrl-C again to stop immediately.\n")

    def second(number: int, _: object) -> None:
        # A normal exit would wait for the threads.
        _remove_directory(temporary)
        os._exit(SIGNALLED + number)

    # `nohup` ignores SIGHUP, so that the process survives its terminal.
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signals = [signal.SIGINT, signal.SIGTERM] + [signal.SIGHUP] * (not outlives)
    for number in signals:
        loop.add_signal_handler(number, first)


def _reload_on_hangup(tls: "TlsListeners | None") -> None:
    """SIGHUP makes a broker with TLS listeners read their stores again, as other servers do.

    On a terminal it means that the terminal is gone, and stops the broker. Without TLS listeners
    there is nothing to read again.
    """
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        if tls is None:
            return
        task = asyncio.ensure_future(tls.reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def _temporary_directory() -> Path:
    # Without `tempfile`: importing it takes longer than importing the rest of this module.
    base = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - the name below is unguessable
    path = base / f"headrace-{os.urandom(8).hex()}"
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise BadCommand(f"cannot create a directory in {base}: {error.strerror}") from error
    return path


def _remove_directory(temporary: Path | None) -> None:
    if temporary is not None:
        from shutil import rmtree

        rmtree(temporary, ignore_errors=True)


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        # Stdout is closed; the broker serves all the same. Without a replacement, flushing the
        # buffer at exit would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
