"""`headrace up` and `headrace broker start`: one broker in the foreground, to a clean stop.

The first signal stops gracefully and the exit code is 0; a second one ends the process at once,
with the shell's code for it. What goes wrong at the start is one sentence on stderr and exit
code 1; from `broker start` it is 2 where only a change of the settings helps, so that a service
manager does not try again. A broker that loses its last log directory ends with 1.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.broker.node import Broker
from headrace.broker.runtime.errors import StartupError, StopTimedOut
from headrace.cli.broker.banner import serves, welcome
from headrace.cli.broker.options import DEFAULT_HOST, DEFAULT_PORT, UpOptions
from headrace.cli.broker.sd_notify import tell_systemd
from headrace.cluster.java_properties import BadProperties, read_properties
from headrace.cluster.settings import BrokerSettings, InvalidSetting
from headrace.logs import configure
from headrace.runtime import collect_rarely, keep_freed_memory, loop_factory

FAILED = 1
WRONG_SETTINGS = 2
SIGNALLED = 128  # the shell's exit code for a process that a signal ended, plus its number


class BadCommand(Exception):
    """What was asked for cannot be done; the message says what to change."""


def up(options: UpOptions) -> int:
    """Runs a broker until it is told to stop."""
    configure(log_format=options.log_format, verbose=options.verbose)
    temporary = None
    try:
        temporary = _temporary_directory() if options.ephemeral else None
        settings = settings_of(options, temporary)
        _make_directories(settings.log_dirs)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            keeps = None if temporary else settings.log_dirs
            return runner.run(
                _serve(settings, temporary, lambda broker: welcome(broker.bootstrap_servers, keeps))
            )
    except (BadCommand, InvalidSetting, StartupError) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return FAILED
    finally:
        _remove(temporary)


def start(options: UpOptions) -> int:
    """Runs the broker that a file describes until it is told to stop."""
    configure(log_format=options.log_format, verbose=options.verbose)
    try:
        written = _written(options)
        settings = BrokerSettings.parse(written)
        _check_deployment(settings)
    except (BadCommand, InvalidSetting) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return WRONG_SETTINGS
    try:
        _make_directories(settings.log_dirs, "correct log.dirs")
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(
                _serve(
                    settings, None, lambda broker: serves(broker.node_id, broker.bootstrap_servers)
                )
            )
    except (BadCommand, StartupError) as error:
        sys.stderr.write(f"headrace: {error}\n")
        return FAILED


def _check_deployment(settings: BrokerSettings) -> None:
    """What a file must say, because a default would hide a mistake."""
    if not settings.log_dirs:
        raise BadCommand("log.dirs is not set: name a directory for the broker's topics")
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
    """The file's settings, then --set, then the options that have a name of their own."""
    values = _written(options)
    if options.host is not None or options.port is not None or "listeners" not in values:
        host = DEFAULT_HOST if options.host is None else options.host
        port = DEFAULT_PORT if options.port is None else options.port
        values["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    chosen = temporary or options.data
    if chosen is not None:
        values["log.dirs"] = str(chosen.absolute())
        values.pop("log.dir", None)
    elif not values.keys() & {"log.dirs", "log.dir"}:
        values["log.dirs"] = str(data_folder())
    return BrokerSettings.parse(values)


def _written(options: UpOptions) -> dict[str, str]:
    values = _read_file(options.config) if options.config is not None else {}
    for setting in options.set:
        name, _, value = setting.partition("=")
        values[name.strip()] = value.strip()
    return values


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
            msg = f"cannot keep topics in {path}: {reason}; {remedy}"
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
    """Where a user's programs keep their data, by the custom of the system."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "headrace"
    chosen = os.environ.get("XDG_DATA_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path.home() / ".local" / "share"
    return base / "headrace"


async def _serve(
    settings: BrokerSettings, temporary: Path | None, greeting: Callable[[Broker], str]
) -> int:
    broker = Broker(settings, ephemeral=temporary is not None)
    told_to_stop = asyncio.Event()
    _listen_to_signals(told_to_stop, temporary)
    await broker.start()
    _write(greeting(broker))
    tell_systemd("READY=1")
    keep_freed_memory()
    collect_rarely()
    await broker.until(asyncio.create_task(told_to_stop.wait()))
    tell_systemd("STOPPING=1")
    if broker.ended.done():  # and has said why
        # Not through the interpreter's own end: it would wait for threads that wait for the disk.
        _remove(temporary)
        os._exit(FAILED)
    try:
        await broker.stop()
    except StopTimedOut as error:
        sys.stderr.write(f"headrace: {error}; the next start will recover them\n")
        # Not through the interpreter's own end: it would wait for the threads.
        _remove(temporary)
        os._exit(FAILED)
    return FAILED if broker.ended.done() else 0


def _listen_to_signals(told_to_stop: asyncio.Event, temporary: Path | None) -> None:
    loop = asyncio.get_running_loop()

    def first() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, second)  # runs even while the loop is busy
        told_to_stop.set()
        _write("Stopping. Press Ctrl-C again to stop immediately.\n")

    def second(number: int, _: object) -> None:
        # Not through the interpreter's own end: it would wait for the threads.
        _remove(temporary)
        os._exit(SIGNALLED + number)

    # `nohup` asks for a process that outlives its terminal.
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signals = [signal.SIGINT, signal.SIGTERM] + [signal.SIGHUP] * (not outlives)
    for number in signals:
        loop.add_signal_handler(number, first)


def _temporary_directory() -> Path:
    # By hand: `tempfile` and what it imports would take longer than the rest of this module.
    base = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - the name below is unguessable
    path = base / f"headrace-{os.urandom(8).hex()}"
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise BadCommand(f"cannot make a directory in {base}: {error.strerror}") from error
    return path


def _remove(temporary: Path | None) -> None:
    if temporary is not None:
        from shutil import rmtree

        rmtree(temporary, ignore_errors=True)


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        # Nobody reads; the broker serves all the same. What is buffered must go somewhere, or
        # the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
