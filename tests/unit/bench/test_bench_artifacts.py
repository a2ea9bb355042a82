"""One benchmark at a time, and nothing half-built in the cache."""

from pathlib import Path

import pytest
from bench import artifacts


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_second_benchmark_is_rejected_while_one_runs_and_accepted_afterwards() -> None:
    with artifacts.alone(), pytest.raises(artifacts.BusyError), artifacts.alone():
        pass
    with artifacts.alone():
        pass


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    final = tmp_path / "program"
    with pytest.raises(RuntimeError), artifacts.staging(final) as fresh:
        fresh.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
