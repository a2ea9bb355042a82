"""Topics change under a consumer group."""

from support.groups.classic_groups import GROUP
from support.groups.consumer_groups import ConsumerDriver


def test_added_partitions_are_assigned() -> None:
    driver = ConsumerDriver(t1=2)
    driver.enter_consumer("a")
    driver.enter_consumer("b")
    driver.settle()
    driver.cluster.grow("t1", 2)
    driver.topics_changed("t1")
    driver.settle()
    assert driver.has("a")["t1"] | driver.has("b")["t1"] == {0, 1, 2, 3}
    assert len(driver.has("a")["t1"]) == len(driver.has("b")["t1"]) == 2


def test_a_topic_without_readers_changes_nothing() -> None:
    driver = ConsumerDriver(t1=2, t2=2)
    driver.enter_consumer("a", "t1")
    epoch = driver.consumers.epoch
    driver.cluster.grow("t2", 2)
    driver.topics_changed("t2")
    driver.settle()
    assert driver.consumers.epoch == epoch


def test_a_change_without_a_notification_is_found_after_a_restart() -> None:
    driver = ConsumerDriver(t1=2)
    driver.enter_consumer("a")
    driver.settle()
    driver.cluster.grow("t1", 1)
    driver.settle()
    assert driver.has("a") == {"t1": {0, 1}}
    driver.restart()
    driver.settle()
    assert driver.has("a") == {"t1": {0, 1, 2}}


def test_a_restart_alone_starts_no_rebalance() -> None:
    driver = ConsumerDriver(t1=2)
    driver.enter_consumer("a")
    epoch = driver.consumers.epoch
    driver.restart()
    driver.settle()
    assert driver.consumers.epoch == epoch


def test_a_recreated_topic_is_another_one() -> None:
    driver = ConsumerDriver(t1=2)
    driver.enter_consumer("a")
    old = driver.cluster.image.topics["t1"].topic_id
    driver.cluster.delete("t1")
    driver.cluster.create("t1", 1)
    driver.topics_changed("t1")
    epoch = driver.member("a").epoch
    # The client still owns partitions of the old topic: it must give them back first.
    answer = driver.beat("a", epoch)
    assert answer.member_epoch == epoch
    assert old in driver.member("a").revoking
    driver.beat("a", epoch, owned={})
    assert driver.has("a") == {"t1": {0}}


def test_only_topics_that_are_read_count_as_subscribed() -> None:
    driver = ConsumerDriver()
    driver.enter_consumer("a", "t1", "t2")
    driver.enter_consumer("b", "t2", "t3")
    assert [name for name in ("t1", "t2", "t3") if driver.consumers.subscribes_to(name)] == [
        "t1",
        "t2",
        "t3",
    ]
    driver.quit("a")
    group = driver.shard.groups[GROUP]
    assert not group.subscribes_to("t1")
    assert group.subscribes_to("t2")
