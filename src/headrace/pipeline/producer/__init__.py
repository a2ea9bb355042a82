"""Writes records to topics in transactions: all of them or none, each once."""

from headrace.pipeline.producer.errors import (
    CommitUncertain,
    ProducerFailed,
    ProducerFenced,
    TriedAgain,
)
from headrace.pipeline.producer.settings import ProducerSettings, producer_settings
from headrace.pipeline.producer.transactional_producer import (
    TransactionalProducer,
    initialized_producer,
)

__all__ = [
    "CommitUncertain",
    "ProducerFailed",
    "ProducerFenced",
    "ProducerSettings",
    "TransactionalProducer",
    "TriedAgain",
    "initialized_producer",
    "producer_settings",
]
