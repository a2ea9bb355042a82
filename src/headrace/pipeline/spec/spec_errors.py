"""The errors of a spec, each with its position and a fix."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.pipeline.spec.spec_rules import Path
from headrace.pipeline.spec.spec_values import is_secret


class SpecError(NamedTuple):
    """One error. Lines and columns count from 1; 0 means that there is no position."""

    line: int
    column: int
    path: Path
    message: str
    fix: str = ""

    @property
    def dotted(self) -> str:
        """`source.value.format`, `expect[0].sql`."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text


class SpecErrors(ValueError):
    """All errors of a spec, in the order of its lines."""

    def __init__(self, errors: Sequence[SpecError], file: str = "", text: str = "") -> None:
        self.errors = tuple(sorted(errors, key=lambda each: (each.line, each.column)))
        self.file = file
        self._lines = text.splitlines()
        super().__init__(self.render())

    def render(self) -> str:
        """The errors as text, each with its line of the file and its fix.

        A line that may contain a secret is not shown.
        """
        return "\n".join(self._render_error(each) for each in self.errors)

    def _render_error(self, error: SpecError) -> str:
        place = f"{self.file}:{error.line}:{error.column}: " if error.line else ""
        path = f"{error.dotted}: " if error.path else ""
        text = f"{place}{path}{error.message}"
        if 0 < error.line <= len(self._lines) and not is_secret(self._lines[error.line - 1]):
            number = f"{error.line:>5}"
            text += f"\n{number} | {self._lines[error.line - 1]}"
            text += f"\n{' ' * len(number)} | {' ' * (error.column - 1)}^"
        return f"{text}\n        fix: {error.fix}" if error.fix else text
