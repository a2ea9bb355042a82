"""The live table of `cluster up` on a terminal with 80 columns and 24 lines."""

import pytest
from rich.console import Console

from headrace.cli.cluster.cluster_state import DEAD, STOPPED, UP, BrokerView, ClusterView
from headrace.cli.cluster.live_table import Heading, LiveTable, wrap_list
from headrace.cli.cluster.status import Overview
from headrace.client.admin.brokers import ClusterInfo
from headrace.client.metadata import PartitionInfo, TopicInfo

WIDTH, HEIGHT = 80, 24
FOLDER = "/home/someone/a-rather-long-directory-name-for-a-cluster/of-some-project/data"
PARTITIONS = {index: PartitionInfo(1, 0, (1, 2, 3), (1, 3)) for index in range(20)}


def view(*states: str) -> ClusterView:
    brokers = tuple(
        BrokerView(
            number,
            f"127.0.0.1:{40000 + number}",
            None if state == DEAD else 123456,
            state,
            "killed by SIGKILL" if state == DEAD else "",
            f"{FOLDER}/broker-{number}/broker.log",
            ("the last line",),
        )
        for number, state in enumerate(states, 1)
    )
    cluster = ClusterInfo("c", 1, ())
    return ClusterView(brokers, Overview(cluster, (TopicInfo("t", bytes(16), False, PARTITIONS),)))


def shown(of: ClusterView, http: tuple[str, ...] = (), console: str | None = None) -> str:
    servers = ",".join(broker.address for broker in of.brokers)
    table = LiveTable(
        Heading(servers, lambda: "127.0.0.1:2181", FOLDER, http=http, console=console)
    )
    table.show(of)
    console = Console(width=WIDTH, height=HEIGHT, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_paths_and_addresses_are_complete_and_the_screen_fits() -> None:
    text = shown(view(UP, DEAD, UP, UP, UP))
    assert FOLDER in "".join(line.strip() for line in text.splitlines()).replace("…", "?")
    for number in range(1, 6):
        assert f"127.0.0.1:4000{number}" in text
    assert "broker 2 killed by SIGKILL; end of broker-2/broker.log:\n" in text
    assert "20 partitions, 20 under-replicated" in text
    assert len(text.splitlines()) <= HEIGHT
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_ports_for_metrics_and_probes_and_the_console_are_shown() -> None:
    urls = tuple(f"http://127.0.0.1:{port}" for port in (9644, 9645, 9646))
    lines = shown(view(UP, UP, UP), urls, "http://127.0.0.1:9647/").splitlines()
    for url in urls:
        assert any(f"{url}/metrics" in line for line in lines)
    assert any("/livez and /readyz" in line for line in lines)
    assert any(line.split() == ["console", "http://127.0.0.1:9647/"] for line in lines)
    assert len(lines) <= HEIGHT
    assert "console" not in shown(view(UP)) and "metrics" not in shown(view(UP))


def test_only_a_broker_that_is_up_is_shown_as_the_controller() -> None:
    assert "up, controller" in shown(view(UP, UP))
    assert "controller" not in shown(view(STOPPED, UP))


def test_a_stopped_cluster_shows_no_partitions_and_no_load() -> None:
    text = shown(view(STOPPED, STOPPED))
    assert "partitions" not in text
    assert [line.split()[-3:] for line in text.splitlines() if "stopped" in line] == [["-"] * 3] * 2


@pytest.mark.parametrize(
    ("width", "lines"), [(20, "a:1,b:2,c:3"), (8, "a:1,b:2,\nc:3"), (1, "a:1,\nb:2,\nc:3")]
)
def test_a_list_breaks_only_after_a_comma(width: int, lines: str) -> None:
    assert wrap_list("a:1,b:2,c:3", width) == lines
