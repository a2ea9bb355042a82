"""An application that copies a topic record by record and can crash at the worst moment.

    python worker.py GUARANTEE BOOTSTRAP GROUP SOURCE TARGET CRASH_AT

It ends after the record whose value is "last". It is a static member of its group, so that the
one that starts after a crash joins immediately.
"""

import os
import signal
import sys
import time

from confluent_kafka import Consumer, Message, Producer

DEADLINE_S = 60.0


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_most_once(
    consumer: Consumer, copy: Producer, target: str, one: Message, *, dies: bool
) -> None:
    consumer.commit(message=one, asynchronous=False)
    if dies:
        crash()
    copy.produce(target, one.value(), partition=0)
    copy.flush(DEADLINE_S)


def at_least_once(
    consumer: Consumer, copy: Producer, target: str, one: Message, *, dies: bool
) -> None:
    copy.produce(target, one.value(), partition=0)
    copy.flush(DEADLINE_S)
    if dies:
        crash()
    consumer.commit(message=one, asynchronous=False)


def exactly_once(
    consumer: Consumer, copy: Producer, target: str, one: Message, *, dies: bool
) -> None:
    copy.begin_transaction()
    copy.produce(target, one.value(), partition=0)
    copy.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), DEADLINE_S
    )
    if dies:
        copy.flush(DEADLINE_S)
        crash()
    copy.commit_transaction(DEADLINE_S)


WAYS = {"at-most-once": at_most_once, "at-least-once": at_least_once, "exactly-once": exactly_once}


def main() -> None:
    guarantee, bootstrap, group, source, target, crash_at = sys.argv[1:]
    servers = {"bootstrap.servers": bootstrap}
    transactional = {"transactional.id": group} if guarantee == "exactly-once" else {}
    copy = Producer({**servers, **transactional})
    if transactional:
        copy.init_transactions(DEADLINE_S)
    consumer = Consumer(
        {
            **servers,
            "group.id": group,
            "group.instance.id": "worker",
            "session.timeout.ms": 30_000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    give_up = time.monotonic() + DEADLINE_S
    while time.monotonic() < give_up:
        one = consumer.poll(0.1)
        if one is None or one.error():
            continue
        WAYS[guarantee](consumer, copy, target, one, dies=one.value() == crash_at.encode())
        if one.value() == b"last":
            consumer.close()
            return
    raise SystemExit("the last record did not come")


main()
