"""`headrace generate` prints one file or writes all."""

import json
from pathlib import Path

import pytest
import yaml

from support.cli.command import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli("", tmp_path)


def test_one_file_is_printed_or_all_are_written(cli: Cli, tmp_path: Path) -> None:
    overview = json.loads(cli.ok("generate", "grafana", "overview"))
    assert overview["title"] == "Headrace: overview"
    folder = tmp_path / "new" / "dashboards"
    printed = cli.ok("generate", "grafana", "--output", str(folder)).splitlines()
    assert sorted(printed) == sorted(map(str, folder.iterdir()))
    assert len(printed) == 5
    assert json.loads((folder / "headrace-overview.json").read_text()) == overview


def test_the_scrape_settings_name_the_targets_and_the_rule_files(cli: Cli, tmp_path: Path) -> None:
    words = ("generate", "prometheus", "--output", str(tmp_path), "--job", "kafka")
    cli.ok(*words, "--target", "b1:9644", "--target", "b2:9644")
    settings = yaml.safe_load((tmp_path / "prometheus.yml").read_text())
    (scrape,) = settings["scrape_configs"]
    assert scrape["job_name"] == "kafka"
    assert scrape["static_configs"][0]["targets"] == ["b1:9644", "b2:9644"]
    assert all((tmp_path / name).is_file() for name in settings["rule_files"])


@pytest.mark.parametrize("more", [(), ("overview", "--output", "x")])
def test_without_a_name_or_a_directory_nothing_is_written(cli: Cli, more: tuple[str, ...]) -> None:
    ended = cli("generate", "grafana", *more)
    assert ended.code == 2
    assert "--output DIR" in ended.stderr
