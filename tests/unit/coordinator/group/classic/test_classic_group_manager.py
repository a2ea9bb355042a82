"""Classic requests for groups of other kinds."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.record_format import RecordChange
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.records.consumer import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from headrace.coordinator.group.records.share import ShareGroupMetadataKey, ShareGroupMetadataValue
from headrace.protocol.errors import ErrorCode
from headrace.protocol.struct import Struct
from support.groups.classic_groups import GROUP, ClassicDriver


def with_record(key: Struct, value: Struct) -> ClassicDriver:
    driver = ClassicDriver()
    record_key, record_value = driver.shard.format.encode(RecordChange(key, value))
    driver.log.append((record_key, record_value, None))
    driver.restart()
    return driver


def test_a_classic_member_cannot_join_a_share_group() -> None:
    driver = with_record(ShareGroupMetadataKey(group_id=GROUP), ShareGroupMetadataValue(epoch=1))
    assert driver.join().value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for refused in (
        lambda: driver.heartbeat("who", 1),
        lambda: driver.sync("who", 1).value,
        lambda: driver.leave("who"),
    ):
        with pytest.raises(CoordinatorError) as error:
            refused()
        assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_becomes_classic_with_its_first_member() -> None:
    driver = with_record(
        ConsumerGroupMetadataKey(group_id=GROUP), ConsumerGroupMetadataValue(epoch=7)
    )
    assert isinstance(driver.shard.groups[GROUP], ConsumerGroup)
    driver.form(2)
    assert isinstance(driver.group, ClassicGroup)
    driver.restart()
    assert set(driver.group.members)


def test_a_conversion_that_is_not_written_leaves_the_consumer_group() -> None:
    driver = with_record(
        ConsumerGroupMetadataKey(group_id=GROUP), ConsumerGroupMetadataValue(epoch=7)
    )
    driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(CoordinatorError):
        driver.join().value  # noqa: B018
    assert isinstance(driver.shard.groups[GROUP], ConsumerGroup)


def test_an_unknown_member_does_not_convert_an_empty_consumer_group() -> None:
    driver = with_record(
        ConsumerGroupMetadataKey(group_id=GROUP), ConsumerGroupMetadataValue(epoch=7)
    )
    assert driver.join("who").value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(driver.shard.groups[GROUP], ConsumerGroup)
