"""Errors of tasks that write to a topic, as Spark reports them."""

import pytest
from pyspark.errors import PySparkException

from headrace.pipeline.producer import CommitUncertain, ProducerFailed, TriedAgain
from headrace.pipeline.runner.failures import failure_of

SAID = """Job aborted due to stage failure: Task 1 in stage 4.0 failed 4 times
Traceback (most recent call last):
  File "delivery.py", line 1, in __call__
headrace.pipeline.producer.errors.{name}: {message}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(x.scala:1)
"""


@pytest.mark.parametrize(
    ("name", "retriable"),
    [
        ("TriedAgain", True),
        ("NotAcknowledged", True),
        ("ProducerFenced", False),
        ("ProducerFailed", False),
    ],
)
def test_a_task_that_cannot_write_says_why_and_whether_to_retry(name: str, retriable: bool) -> None:
    error = PySparkException(SAID.format(name=name, message="the partition o-1: why"))
    found = failure_of(error)
    assert (found.message, found.retriable) == ("the partition o-1: why", retriable)


def test_a_batch_that_must_be_repeated_is_retried() -> None:
    assert failure_of(TriedAgain("x")).retriable
    assert failure_of(CommitUncertain("x")).retriable
    assert not failure_of(ProducerFailed("x")).retriable
