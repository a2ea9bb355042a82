"""Settings as lines, and their sources."""

import pytest

from headrace.client.admin.configs import ConfigSource
from headrace.console.screens.settings_form import settings_of, source_name
from headrace.console.web.errors import PageError


def test_lines_are_settings_and_comments_are_left_out() -> None:
    assert settings_of("a=1\n # no\n\n b.c = x=y \n") == {"a": "1", "b.c": "x=y"}


@pytest.mark.parametrize("line", ["word", "=1"])
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(PageError, match="NAME=VALUE"):
        settings_of(line)


def test_every_source_has_a_name() -> None:
    assert source_name(ConfigSource.DYNAMIC_DEFAULT_BROKER) == "dynamic, all brokers"
    assert len({source_name(each) for each in ConfigSource}) == len(ConfigSource)
