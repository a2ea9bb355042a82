"""Java forks where supported; a setting that a later Java rejects is not passed."""

import sys

import pytest

from headrace.pipeline.spark.startup_settings import (
    CHECKPOINT_MANAGER,
    FORKING,
    JAVA_OPTIONS,
    RENAMING,
    jvm_startup_settings,
)


@pytest.mark.parametrize("java", [17, 21])
def test_java_forks_on_linux(java: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert jvm_startup_settings(java) == {CHECKPOINT_MANAGER: RENAMING, JAVA_OPTIONS: FORKING}


@pytest.mark.parametrize("java", [None, 22, 27])
def test_a_java_that_may_lack_the_setting_does_not_get_it(
    java: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert jvm_startup_settings(java) == {CHECKPOINT_MANAGER: RENAMING}


def test_the_fork_setting_is_for_linux_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert jvm_startup_settings(17) == {CHECKPOINT_MANAGER: RENAMING}
