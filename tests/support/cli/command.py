"""The `headrace` command in this process: arguments in, exit code and both streams out."""

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from headrace.cli.app import app


class Ended:
    """The result of a command."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def facts(self) -> object:
        """The parsed output of `--format json`."""
        return json.loads(self.stdout)

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.stdout}\n{self.stderr}"


class Cli:
    """Runs commands against one cluster, without the profile of the user who runs the tests."""

    def __init__(self, servers: str, home: Path) -> None:
        self._environment = {
            "HEADRACE_BOOTSTRAP": servers,
            "XDG_CONFIG_HOME": str(home),
            "HEADRACE_CONFIG": "",
            "HEADRACE_PROFILE": "",
            "TERM": "dumb",
            "COLUMNS": "200",
        }

    def __call__(
        self, *words: str, stdin: str | bytes | None = None, env: dict[str, str] | None = None
    ) -> Ended:
        result = CliRunner().invoke(
            app, list(words), input=stdin, env={**self._environment, **(env or {})}
        )
        assert "Traceback" not in result.output, result.output
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    def ok(self, *words: str, stdin: str | bytes | None = None) -> str:
        """The stdout of a command; the command must succeed."""
        ended = self(*words, stdin=stdin)
        assert ended.code == 0, ended
        return ended.stdout


MakeCli = Callable[[str], Cli]
