"""What all commands share: the connection options, error messages and exit codes.

`@command(app, "name")` adds the connection options to a function whose first argument is the
`Session`. Every error becomes one sentence on stderr and an exit code, never a traceback.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Final, TypeAlias

import typer

from headrace.cli.confirmation import OldYes
from headrace.cli.error_messages import explain
from headrace.cli.exit_codes import ExitCode
from headrace.cli.name_value_pairs import parse_name_value_pairs
from headrace.cli.options import Form, Overrides, Profile, Servers, Timeout
from headrace.cli.output import Format, Output, remark
from headrace.cli.profiles import client_settings, profile_file, variable_of
from headrace.cli.secrets import is_readable_by_others, secrets_in
from headrace.cli.session import DEFAULT_TIMEOUT_S, Session
from headrace.cli.sigterm import Terminated

Body: TypeAlias = Callable[..., ExitCode | None]
"""A command: takes a session and its own options, returns an exit code; None means success."""

DEBUG_VARIABLE: Final = "HEADRACE_DEBUG"  # if set, errors are raised with their traceback
_SHARED: Final[tuple[tuple[str, object, object], ...]] = (
    ("format", Form, Format.TEXT),
    ("bootstrap_server", Servers, None),
    ("profile", Profile, None),
    ("overrides", Overrides, []),
    ("timeout", Timeout, DEFAULT_TIMEOUT_S),
)
_OLD_YES: Final[tuple[tuple[str, object, object], ...]] = (("yes", OldYes, False),)


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Options before the command's name, as in `headrace --profile p topic list`."""

    bootstrap_server: str | None = None
    profile: str | None = None


def command(app: typer.Typer, name: str, *, own_format: bool = False) -> Callable[[Body], Body]:
    """Registers a function as a command of `app`.

    With `own_format`, the function declares its own --format option.
    """

    def register(body: Body) -> Body:
        own = [each for each in signature(body).parameters.values() if each.name != "session"]
        shared = [row for row in _SHARED if not (own_format and row[0] == "format")]
        acts = any(each.name == "execute" for each in own)

        def run(ctx: typer.Context, **values: object) -> None:
            given = {each[0]: values.pop(each[0]) for each in shared}
            outer = ctx.find_root().obj or GlobalOptions()
            if acts:
                apply_deprecated_yes(values)

            def work() -> ExitCode | None:
                session = _open_session(outer, **given)  # type: ignore[arg-type]  # typer checked them
                return body(session, **values)

            raise typer.Exit(guard(work))

        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, annotation, default in (*shared, *(_OLD_YES if acts else ()))
        ]
        context = Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        keyword_only = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]
        run.__signature__ = signature(body).replace(  # type: ignore[attr-defined]
            parameters=[context, *keyword_only, *added],
            return_annotation=None,
        )
        app.command(name, help=body.__doc__)(run)
        return body

    return register


def apply_deprecated_yes(values: dict[str, object]) -> None:
    """Treats the deprecated --yes as --execute."""
    if values.pop("yes"):
        remark("--yes is deprecated; use --execute")
        values["execute"] = True


def _open_session(
    outer: GlobalOptions,
    *,
    bootstrap_server: str | None,
    profile: str | None,
    overrides: list[str],
    timeout: float,
    format: Format = Format.TEXT,  # noqa: A002
) -> Session:
    named_profile = profile or outer.profile
    given = parse_name_value_pairs(overrides, "-X")
    settings = client_settings(
        servers=bootstrap_server or outer.bootstrap_server,
        profile=named_profile,
        overrides=given,
    )
    _warn_of_exposed_secrets(settings, given, profile_file(os.environ, named_profile))
    named = bool(bootstrap_server or outer.bootstrap_server)
    return Session(settings, Output(format), timeout, servers_named=named)


def _warn_of_exposed_secrets(
    settings: Mapping[str, str], given: Mapping[str, str], file: Path
) -> None:
    for name in secrets_in(given):
        remark(
            f"-X {name} is visible to other users of this machine; put it into a profile, or set "
            f"{name}.file or {variable_of(name)}"
        )
    if secrets_in(settings.keys() - given.keys()) and is_readable_by_others(file):
        remark(f"other users can read the secrets in {file}; run: chmod 600 {file}")


def guard(work: Callable[[], ExitCode | None]) -> int:
    """Runs a command's work and returns its exit code."""
    try:
        code = work() or ExitCode.OK
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
        return ExitCode.BROKEN_PIPE
    except Terminated:
        return ExitCode.TERMINATED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except typer.Abort:  # Ctrl-C or Ctrl-D at a confirmation prompt
        return ExitCode.INTERRUPTED
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:  # every other error becomes one sentence
        if os.environ.get(DEBUG_VARIABLE):
            raise
        failure = explain(error)
        remark(str(failure))
        return failure.code
    return code


def _discard_stdout() -> None:
    """Redirects stdout to /dev/null, so that flushing at exit does not fail a second time.

    The reader of the pipe (such as `| head`) has ended.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
