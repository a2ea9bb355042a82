"""Results of requests about many partitions."""

from headrace.client.errors import RequestRefused, check_error_code
from headrace.client.results import TopicPartition, group_by_topic, indexes_by_topic
from headrace.protocol.errors import ErrorCode


def test_partitions_are_grouped_by_topic_in_their_order() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert indexes_by_topic(partitions) == {"b": [1, 0], "a": [0]}
    assert group_by_topic(partitions, str) == {"b": ["b-1", "b-0"], "a": ["a-0"]}
    assert indexes_by_topic([]) == {}


def test_an_error_code_of_a_response_is_raised_with_what_was_requested() -> None:
    check_error_code(ErrorCode.NONE, "cannot elect leaders")
    try:
        check_error_code(ErrorCode.NOT_CONTROLLER, "cannot elect leaders")
    except RequestRefused as error:
        assert error.code is ErrorCode.NOT_CONTROLLER
        assert str(error).startswith("cannot elect leaders: NOT_CONTROLLER")
    else:
        raise AssertionError("the error code was ignored")
