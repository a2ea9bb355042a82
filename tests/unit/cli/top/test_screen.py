"""The screen fits its terminal; keys choose the view and the order."""

from dataclasses import replace

from rich.console import Console

from headrace.cli.cluster.status import Overview
from headrace.cli.top.keyboard import split_keys
from headrace.cli.top.sample import Sample
from headrace.cli.top.screen import TopScreen
from headrace.cli.top.views import NEEDS_METRICS, ViewName
from headrace.client.admin.brokers import BrokerInfo, ClusterInfo
from headrace.client.metadata import PartitionInfo, TopicInfo
from headrace.client.results import TopicPartition

TOPICS = 100


def sample(at: float, grown: int) -> Sample:
    partition = {0: PartitionInfo(1, 0, (1,), (1,))}
    topics = tuple(
        TopicInfo(f"topic-{number:03}\x1b[2J", bytes(16), False, partition)
        for number in range(TOPICS)
    )
    ends = {TopicPartition(topic.name, 0): grown * n for n, topic in enumerate(topics)}
    return Sample(at, Overview(ClusterInfo("c", 1, (BrokerInfo(1, "h", 1),)), topics), ends)


def shown(screen: TopScreen, width: int = 80, height: int = 20) -> str:
    console = Console(width=width, height=height, highlight=False)
    with console.capture() as captured:
        console.print(screen)
    return captured.get()


def test_brokers_that_refuse_their_metrics_are_named() -> None:
    screen = filled()
    screen.show(replace(sample(2.0, 20), refused={1: "401 Unauthorized", 2: "401 Unauthorized"}))
    heading = shown(screen, width=160).splitlines()[0]
    assert "metrics refused by 1,2 (401 Unauthorized)" in heading


def filled() -> TopScreen:
    screen = TopScreen(ViewName.TOPICS)
    screen.show(sample(0.0, 0))
    screen.show(sample(1.0, 10))
    return screen


def test_the_busiest_topics_come_first_and_the_screen_fits() -> None:
    text = shown(filled())
    lines = text.splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    assert "1 of 1 brokers up   100 partitions" in lines[0]
    assert lines[4].startswith("topic-099")
    assert "990" in lines[4]
    assert "UNDER-REPL" in lines[3]
    assert "\x1b[2J" not in text
    assert "q quit" in lines[-1]


def test_keys_choose_the_view_the_order_and_the_end() -> None:
    screen = filled()
    screen.press("r")
    assert shown(screen).splitlines()[4].startswith("topic-000")
    screen.press("4")
    assert screen.view is ViewName.REQUESTS
    assert NEEDS_METRICS[:40] in shown(screen)
    for key in ("\t", "\x1b[C"):
        screen.press(key)
    assert screen.view is ViewName.TOPICS
    screen.press("\x1b[D")
    assert screen.view is ViewName.BROKERS
    screen.press("s")
    assert "IN/S*" in shown(screen, width=120)
    assert not screen.quit
    screen.press("q")
    assert screen.quit


def test_before_the_first_sample_the_screen_says_what_it_waits_for() -> None:
    screen = TopScreen(ViewName.TOPICS)
    assert "reading the cluster" in shown(screen)
    screen.show_failure("no broker answered")
    assert "no broker answered" in shown(screen)


def test_an_arrow_key_is_one_key() -> None:
    assert list(split_keys("q\x1b[Cs")) == ["q", "\x1b[C", "s"]
