"""What the browser tests and the screenshots show."""

import json
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.results import TopicPartition as Position
from headrace.pipeline.application.history import RunHistory
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.core.group_metadata import progress_metadata
from headrace.pipeline.dead_letters.headers import Facts, letter_headers
from headrace.pipeline.runner.events import Event, EventKind
from support.waiting import wait_for

BROKER_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
DEADLINE_S = 30.0
NO_COORDINATOR_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Apache Kafka answers so until the partitions of `__consumer_offsets` have leaders."""
HOSTILE = '<script>document.title="owned"</script><img src=x onerror="document.title=1">'
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "settings": "/topics/orders?tab=settings&q=retention",
    "consumers": "/topics/orders?tab=consumers",
    "messages": "/topics/orders/messages?limit=25",
    "record": "/topics/orders/messages/0/0",
    "produce": "/topics/orders/produce",
    "groups": "/groups",
    "group": "/groups/billing",
    "share-groups": "/share-groups",
    "transactions": "/transactions",
    "transaction": "/transactions/id/checkout",
    "hanging": "/transactions/hanging",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "broker-settings": "/brokers/1?tab=settings",
    "reassignments": "/reassignments",
    "dead-letters": "/dead-letters",
    "dead-letter-topic": "/dead-letters/orders.dlq",
    "dead-letter": "/dead-letters/orders.dlq/letters/0/0",
    "pipelines": "/pipelines",
    "pipeline": "/pipelines/orders_to_lake",
    "users": "/users",
    "acls": "/acls?check_principal=User:alice&check_operation=read&check_type=topic&check_name=x",
    "quotas": "/quotas",
}
"""A page of every screen, as `fill` fills it."""


def fill(servers: str) -> None:
    """Topics, groups, a pipeline and dead letters: every screen has something to show."""
    admin = AdminClient({"bootstrap.servers": servers})
    names = ("orders", "payments", "shipments", "customers", "hostile", "audit.log", "orders.dlq")
    made = admin.create_topics([NewTopic(name, 6, 1) for name in names])
    for future in made.values():
        future.result()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(600):
        order = {
            "id": number,
            "customer": {"id": number % 97, "country": ("DE", "FR", "NL")[number % 3]},
            "total": round(number * 7.31 % 500, 2),
            "items": [{"sku": f"S-{number % 13}", "quantity": number % 5 + 1}],
        }
        producer.produce(
            names[number % 4],
            key=f"customer-{number % 97}",
            value=json.dumps(order),
            headers={"trace": f"t-{number}"},
            partition=number // 4 % 6,
        )
    producer.produce("hostile", HOSTILE.encode(), key=b"<b>\x1b[2J", partition=0)
    producer.produce("hostile", b"\x00\x01\xff" * 400, partition=0)
    producer.produce("hostile", "\u202egnp.exe \u0007\x00 bell".encode(), partition=0)
    producer.produce("hostile", b'{"long": "' + b"x" * 900_000 + b'"}', partition=0)
    _write_dead_letters(producer)
    assert producer.flush(DEADLINE_S) == 0
    _commit(servers, "billing", "orders", 7)
    _commit(servers, "orders_to_lake", "orders", 20, progress_metadata(412, "8810"))
    _transaction(servers)


def _write_dead_letters(producer: Producer) -> None:
    for number, error, message in (
        (0, "NotJson", "at byte 8"),
        (1, "NotJson", "at byte 9"),
        (2, "NotJson", "at byte 10"),
        (3, "MissingField", "customer.id"),
    ):
        facts = Facts("orders", 0, number, 1_000, error, message, "orders_to_lake", 1, 1)
        value = b'{"id": %d "x": "<img src=x onerror=alert(1)>"}' % number
        headers = list(letter_headers((), facts))
        producer.produce("orders.dlq", value, headers=headers, partition=0)


def _commit(servers: str, group: str, topic: str, offset: int, metadata: str = "") -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    offsets = [TopicPartition(topic, partition, offset, metadata) for partition in range(6)]

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in NO_COORDINATOR_YET:
                raise
            return False
        return True

    wait_for(is_committed, f"group {group} commits", deadline_s=DEADLINE_S)
    consumer.close()


def _transaction(servers: str) -> None:
    """A transaction that is committed."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "checkout"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce("payments", b"{}", partition=0)
    producer.commit_transaction(DEADLINE_S)


def write_checkpoint(folder: Path) -> None:
    """The checkpoint directory of the pipeline, with its last run and the history of 12 batches."""
    checkpoint = Checkpoint(str(folder / "orders_to_lake"))
    now_ms = int(time.time() * 1000)
    with checkpoint.locked("orders_to_lake"), RunHistory(checkpoint.history) as history:
        run = {"host": "worker-3", "pid": 4711, "started_ms": now_ms, "version": "0.2.0"}
        spec = {"flow": "orders_to_lake", "source": {"topic": "orders"}, "sink": {"table": "lake"}}
        checkpoint.save_run({**run, "spec": spec})
        for number in range(12):
            seconds = 1.5 + number % 5 / 2
            history.add(
                Event(
                    "orders_to_lake",
                    EventKind.BATCH,
                    batch_id=401 + number,
                    rows=900 + 37 * number,
                    seconds=seconds,
                    phases={
                        "plan": 0.1,
                        "prepare": seconds * 0.3,
                        "write": seconds * 0.4,
                        "dead_letters": 0.05,
                        "commit": seconds * 0.2,
                    },
                    version=str(8799 + number),
                    offsets={Position("orders", partition): 20 for partition in range(6)},
                )
            )
