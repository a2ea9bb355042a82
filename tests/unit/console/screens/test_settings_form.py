"""Settings as lines."""

import pytest

from headrace.console.screens.settings_form import settings_of
from headrace.console.web.errors import PageError


def test_lines_are_settings_and_comments_are_left_out() -> None:
    assert settings_of("a=1\n # no\n\n b.c = x=y \n") == {"a": "1", "b.c": "x=y"}


@pytest.mark.parametrize("line", ["word", "=1"])
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(PageError, match="NAME=VALUE"):
        settings_of(line)
