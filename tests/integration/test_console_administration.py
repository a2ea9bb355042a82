"""The administration screens of the console against a real broker, over HTTP."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client.results import TopicPartition
from headrace.pipeline.application.history import RunHistory
from headrace.pipeline.batch.checkpoint_directory import Checkpoint
from headrace.pipeline.core.group_metadata import progress_metadata
from headrace.pipeline.dead_letters.headers import Facts, letter_headers
from headrace.pipeline.runner.events import Event, EventKind
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.source.settings import ReadSettings
from headrace.testing import Broker
from support.console.client import Answer, ConsoleClient
from support.waiting import wait_for
from support.wire.batches import topic_id_of
from support.wire.connection import Wire
from support.wire.share_member import (
    ShareMember,
    join_share_group,
    leave_share_group,
    set_group_config,
)

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
DEADLINE_S = 30.0
TOPIC = "orders"
RECORDS = 30
LETTERS = 7
ACCEPT, RELEASE, REJECT = 1, 2, 3


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as broker:
        fill(broker.bootstrap_servers)
        yield broker


@pytest.fixture(scope="module")
def console(broker: Broker) -> Iterator[ConsoleClient]:
    with ConsoleClient(broker.bootstrap_servers) as console:
        yield console


@pytest.fixture(scope="module")
def read_only(broker: Broker) -> Iterator[ConsoleClient]:
    with ConsoleClient(broker.bootstrap_servers, read_only=True) as console:
        yield console


def fill(bootstrap: str) -> None:
    """A topic, two groups that have committed, an open transaction and dead letters."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(TOPIC, 2), NewTopic("orders.dlq", 1)]
    for created in admin.create_topics(new).values():
        created.result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(RECORDS):
        producer.produce(TOPIC, f"{index}", partition=index % 2)
    for index in range(LETTERS):
        error = "NotJson" if index < LETTERS - 1 else "TooLarge"
        facts = Facts(TOPIC, 0, index, 1_000, error, f"value {index} is bad", "lake", 1, 1)
        headers = list(letter_headers((("trace", b"abc"),), facts))
        producer.produce("orders.dlq", b'{"id" <b>%d</b>' % index, key=b"k", headers=headers)
    assert producer.flush(DEADLINE_S) == 0
    for group in ("billing", "a/b c"):
        commit(bootstrap, group, 5)
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "checkout"})
    transactional.init_transactions(DEADLINE_S)
    transactional.begin_transaction()
    transactional.produce(TOPIC, "open", partition=0)
    assert transactional.flush(DEADLINE_S) == 0


def commit(bootstrap: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    offsets = [At(TOPIC, partition, offset) for partition in (0, 1)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([At(TOPIC, 0), At(TOPIC, 1)], DEADLINE_S)
    consumer.close()
    return [each.offset for each in found]


def eventually(look: Callable[[], Answer], text: str) -> Answer:
    """The page as soon as it shows `text`; the snapshot is refreshed in the background."""
    seen: list[Answer] = []

    def shown() -> bool:
        seen[:] = [look()]
        return text in seen[0].text

    wait_for(shown, f"the page shows {text!r}", deadline_s=DEADLINE_S)
    return seen[0]


ROUTES = (
    "/groups",
    "/groups/billing",
    "/groups/a%2Fb%20c",
    "/share-groups",
    "/transactions",
    "/transactions/id/checkout",
    "/transactions/hanging",
    "/brokers",
    "/brokers/1",
    "/brokers/1?tab=settings&all=1",
    "/reassignments",
    "/dead-letters",
    "/dead-letters/orders.dlq",
    "/dead-letters/orders.dlq/letters/0/0",
    "/dead-letters/orders.dlq/replay",
    "/pipelines",
    "/users",
    "/acls",
    "/quotas",
)


@pytest.mark.parametrize("path", ROUTES)
def test_every_screen_opens(console: ConsoleClient, path: str) -> None:
    answer = console.get(path)
    assert answer.status == 200, answer.text
    assert "StrictUndefined" not in answer.raw


@pytest.mark.parametrize(
    "path",
    [
        "/groups/none",
        "/share-groups/none",
        "/transactions/id/none",
        "/brokers/99",
        "/brokers/x",
        "/dead-letters/none",
        "/dead-letters/orders.dlq/letters/0/999",
        "/dead-letters/orders.dlq/errors/0",
        "/pipelines/none",
    ],
)
def test_what_does_not_exist_is_not_found(console: ConsoleClient, path: str) -> None:
    answer = console.get(path)
    assert answer.status == 404
    assert "No such" in answer.text


def test_a_group_shows_its_lag_in_records_and_in_time(console: ConsoleClient) -> None:
    page = console.get("/groups/billing")
    assert "Lag 21 records in 2 partitions" in page.text  # one is in the open transaction
    assert "age of the oldest unread record" in page.text
    assert "Time lag –" not in page.text
    assert "classic" in page.text
    assert "Empty" in page.text


def test_a_group_moves_to_the_offsets_of_its_preview(
    console: ConsoleClient, broker: Broker
) -> None:
    commit(broker.bootstrap_servers, "mover", 5)
    preview = console.post(
        "/groups/actions/seek-preview", group="mover", mode="shift", shift="-3", topic="",
        partitions="",
    )  # fmt: skip
    assert preview.status == 200
    assert "Read again 6" in preview.text
    assert committed(broker.bootstrap_servers, "mover") == [5, 5]
    offsets = preview.hidden("offsets")
    refused = console.post("/groups/actions/seek", group="mover", offsets=offsets, confirm="moved")
    assert refused.status == 400
    assert "Nothing was changed" in refused.text
    assert committed(broker.bootstrap_servers, "mover") == [5, 5]
    done = console.post("/groups/actions/seek", group="mover", offsets=offsets, confirm="mover")
    assert "Group mover: offsets reset in 2 partitions." in done.text
    assert committed(broker.bootstrap_servers, "mover") == [2, 2]


@pytest.mark.parametrize(
    ("fields", "offsets"),
    [
        ({"mode": "earliest"}, [0, 0]),
        ({"mode": "offset", "offset": "4"}, [4, 4]),
        ({"mode": "offset", "offset": "99"}, [15, 15]),
        ({"mode": "last", "last": "2", "topic": TOPIC, "partitions": "1"}, [None, 13]),
        ({"mode": "time", "time": "2000-01-01T00:00:00"}, [0, 0]),
    ],
)
def test_a_preview_resolves_each_kind_of_position(
    console: ConsoleClient, fields: dict[str, str], offsets: list[int | None]
) -> None:
    given = {"topic": "", "partitions": "", **fields}
    preview = console.post("/groups/actions/seek-preview", group="billing", **given)
    assert preview.status == 200, preview.text
    planned = {partition: offset for _, partition, offset in json.loads(preview.hidden("offsets"))}
    for partition, offset in enumerate(offsets):
        if offset == 15:  # the end of partition 0 is after the open transaction's record
            assert planned[partition] in (15, 16)
        else:
            assert planned.get(partition) == offset


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": ""},
        {"mode": "offset", "offset": "x"},
        {"mode": "time", "time": "soon"},
        {"mode": "earliest", "topic": "none"},
        {"mode": "earliest", "partitions": "0"},
        {"mode": "earliest", "topic": TOPIC, "partitions": "9"},
    ],
)
def test_an_incomplete_form_is_explained(console: ConsoleClient, fields: dict[str, str]) -> None:
    given = {"topic": "", "partitions": "", **fields}
    answer = console.post("/groups/actions/seek-preview", group="billing", **given)
    assert answer.status == 400
    assert "Nothing was changed" in answer.text


def test_a_group_and_its_offsets_are_deleted_by_typing_their_names(
    console: ConsoleClient, broker: Broker
) -> None:
    commit(broker.bootstrap_servers, "old", 1)
    kept = console.post("/groups/actions/delete-offsets", group="old", topic=TOPIC, confirm="old")
    assert kept.status == 400
    done = console.post("/groups/actions/delete-offsets", group="old", topic=TOPIC, confirm=TOPIC)
    assert f"Offsets of old in {TOPIC}: deleted in 2 partitions." in done.text
    gone = console.post("/groups/actions/delete", group="old", confirm="old")
    assert "Deleted group old." in gone.text or "GROUP_ID_NOT_FOUND" in gone.text
    assert console.get("/groups/old").status == 404


def test_an_open_transaction_is_shown_and_aborted(console: ConsoleClient, broker: Broker) -> None:
    name = "to-abort"
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name}
    producer = Producer(settings)
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce("orders.other", "never")
    producer.flush(DEADLINE_S)
    page = console.get(f"/transactions/id/{name}")
    assert "Ongoing" in page.text
    assert "orders.other" in page.text
    assert console.post("/transactions/actions/abort", transactional_id=name).status == 400
    done = console.post("/transactions/actions/abort", transactional_id=name, confirm=name)
    assert f"Aborted the transaction of {name}" in done.text


def test_an_abort_of_what_does_not_hang_changes_nothing(console: ConsoleClient) -> None:
    assert "No hanging transaction" in console.get("/transactions/hanging?minutes=0").text
    refused = console.post(
        "/transactions/actions/abort-hanging", topic=TOPIC, partition="0", start="0",
        producer_id="77", confirm=f"{TOPIC}-0",
    )  # fmt: skip
    assert refused.status == 409
    assert "has no open transaction at 0 any more" in refused.text


def test_the_disks_and_the_sources_of_settings_are_shown(console: ConsoleClient) -> None:
    page = console.get("/brokers")
    assert "controller" in page.text
    assert "Online" in page.text
    changed = console.post(
        "/brokers/actions/config", broker="1", name="log.cleaner.threads", value="2", scope="one"
    )
    assert "Set log.cleaner.threads of broker 1." in changed.text
    settings = console.get("/brokers/1?tab=settings&q=log.cleaner.threads")
    assert "dynamic, this broker" in settings.text
    reset = console.post(
        "/brokers/actions/config", broker="1", name="log.cleaner.threads", action="reset"
    )
    assert "Reset log.cleaner.threads of broker 1." in reset.text
    refused = console.post(
        "/brokers/actions/config", broker="1", name="log.cleaner.threads", value="x", scope="one"
    )
    assert "log.cleaner.threads was not changed" in refused.text


def test_a_preferred_election_without_need_changes_nothing(console: ConsoleClient) -> None:
    done = console.post("/brokers/actions/elect")
    assert "Every partition is already led by its preferred leader." in done.text


def test_a_reassignment_that_is_impossible_says_why(console: ConsoleClient) -> None:
    empty = console.post(
        "/reassignments/preview", kind="empty", broker="1", topics="", factor="", throttle=""
    )
    assert empty.status == 409
    assert "no other live broker can take one" in empty.text
    many = console.post(
        "/reassignments/preview", kind="factor", topics=TOPIC, factor="3", throttle=""
    )
    assert "3 replicas need 3 brokers, and 1 are live" in many.text
    same = console.post("/reassignments/preview", kind="balance", topics="", throttle="50M")
    assert same.status == 200
    assert "Nothing to move" in same.text
    nothing = console.post("/reassignments/actions/cancel", confirm="cancel")
    assert "No reassignment is in progress." in nothing.text
    assert console.post("/reassignments/actions/cancel", confirm="").status == 400


def test_users_are_created_with_a_password_shown_once_and_deleted(console: ConsoleClient) -> None:
    created = console.post(
        "/users/actions/save", name="alice", password="", mechanism="SCRAM-SHA-512", iterations=""
    )
    assert "Saved SCRAM-SHA-512 of user alice." in created.text
    assert "Password of alice, shown only now:" in created.text
    listed = console.get("/users")
    assert "8,192 iterations" in listed.text
    assert "shown only now" not in listed.text
    refused = console.post(
        "/users/actions/delete", name="alice", mechanism="SCRAM-SHA-512", confirm="bob"
    )
    assert refused.status == 400
    deleted = console.post(
        "/users/actions/delete", name="alice", mechanism="SCRAM-SHA-512", confirm="alice"
    )
    assert "Deleted SCRAM-SHA-512 of user alice." in deleted.text


def test_acls_are_created_checked_and_deleted(console: ConsoleClient) -> None:
    acl = {
        "type": "topic", "name": "orders", "pattern": "literal", "principal": "User:alice",
        "operation": "read", "permission": "allow",
    }  # fmt: skip
    created = console.post("/acls/actions/create", host="", **acl)
    assert "Created: allow User:alice to read topic orders." in created.text
    check = "/acls?check_principal=User:alice&check_type=topic&check_name=orders&check_operation="
    assert (
        "Allowed allowed by an ACL : allow User:alice to read" in console.get(check + "read").text
    )
    assert "Denied no ACL allows it" in console.get(check + "write").text
    assert console.get(check + "idempotent-write").status == 400
    kept = console.post("/acls/actions/delete", host="*", confirm="User:bob", **acl)
    assert kept.status == 400
    deleted = console.post("/acls/actions/delete", host="*", confirm="User:alice", **acl)
    assert "Deleted: allow User:alice to read topic orders." in deleted.text
    bad = console.post("/acls/actions/create", host="a.example", **acl)
    assert "brokers compare addresses" in bad.text


def test_quotas_are_set_shown_and_removed(console: ConsoleClient) -> None:
    entity = {"user-mode": "named", "user-name": "alice"}
    fields = {"client-id-mode": "", "ip-mode": "", "producer_byte_rate": "1MB", **entity}
    done = console.post("/quotas/actions/save", **fields)
    assert "Set the quota of user alice." in done.text
    assert "1MB/s" in console.get("/quotas").text
    kept = console.post("/quotas/actions/delete", key="", confirm="alice", **entity)
    assert kept.status == 400
    gone = console.post("/quotas/actions/delete", key="", confirm="user alice", **entity)
    assert "Deleted the quota of user alice." in gone.text
    bad = console.post("/quotas/actions/save", **{**fields, "producer_byte_rate": "fast"})
    assert bad.status == 400


def test_dead_letters_are_grouped_edited_and_sent_again_exactly_once(
    console: ConsoleClient, broker: Broker
) -> None:
    topic = console.get("/dead-letters/orders.dlq")
    assert f"Dead letters {LETTERS}" in topic.text
    assert "value # is bad" in topic.text
    assert "<b>0</b>" not in topic.raw
    letter = console.get("/dead-letters/orders.dlq/letters/0/6")
    assert '{"id" <b>6</b>' in letter.raw.replace("&#34;", '"').replace("&lt;", "<").replace(
        "&gt;", ">"
    )
    edit = {
        "place": "0:6", "edited": "1", "key": "k", "key_encoding": "text",
        "value": '{"id": 6}', "value_encoding": "text", "headers": "trace=abc", "to": "repaired",
    }  # fmt: skip
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("repaired", 1)])["repaired"].result(DEADLINE_S)
    preview = console.post("/dead-letters/orders.dlq/preview", **edit)
    assert "To send 1" in preview.text
    assert "1 to repaired" in preview.text
    assert console.post("/dead-letters/orders.dlq/replay", **edit).status == 400
    console.post("/dead-letters/orders.dlq/replay", confirm="orders.dlq", **edit)
    eventually(lambda: console.get("/dead-letters/orders.dlq/replay"), "The replay has ended")
    values, headers = read_all(broker.bootstrap_servers, "repaired")
    assert values == [b'{"id": 6}']
    assert ("trace", b"abc") in headers[0]
    again = {"group": "", "to": "repaired"}
    preview = console.post("/dead-letters/orders.dlq/preview", **again)
    assert f"To send {LETTERS - 1}" in preview.text
    assert "Replayed before 1" in preview.text
    console.post("/dead-letters/orders.dlq/replay", confirm="orders.dlq", **again)
    eventually(lambda: console.get("/dead-letters/orders.dlq/replay"), f"Sent {LETTERS - 1}")
    eventually(lambda: console.get("/dead-letters/orders.dlq"), f"Replayed {LETTERS}")
    values, _ = read_all(broker.bootstrap_servers, "repaired")
    assert len(values) == LETTERS
    audit = console.get("/dead-letters/orders.dlq").text
    assert "console: anonymous" in audit


def test_a_share_group_shows_deliveries_and_is_moved_and_deleted(
    console: ConsoleClient, broker: Broker
) -> None:
    wire = Wire(broker.bootstrap_servers)
    set_group_config(wire, "jobs", share_auto_offset_reset="earliest")
    member = join_share_group(wire, "jobs", TOPIC)
    share = ShareMember(wire, "jobs", topic_id_of(wire, TOPIC), member)
    acquired = wait_for(lambda: share.acquire(max_records=4), "a fetch", deadline_s=DEADLINE_S)
    taken = sum(last - first + 1 for first, last, _ in acquired)
    share.acknowledge((0, 0, [RELEASE]), (1, 1, [REJECT]), (3, 3, [ACCEPT]))
    page = console.get("/share-groups/jobs")
    locked = taken - 3
    assert f"Locked {locked} records, by 1 member" in page.text
    assert re.search(rf"orders-0 2 1 \S* ?{member} 1 \d", page.text)
    assert "No member holds a record" not in page.text
    assert "Waiting for redelivery 1 records, at most 1 delivery" in page.text
    assert "Archived 1 rejected" in page.text
    assert "to redeliver" in page.text
    assert console.get("/groups/jobs").path in ("/groups/jobs", "/share-groups/jobs")
    leave_share_group(wire, "jobs", member)
    wire.close()
    eventually(lambda: console.get("/share-groups/jobs"), "No member holds a record")
    preview = console.post(
        "/share-groups/actions/seek-preview", group="jobs", mode="latest", topic=TOPIC,
        partitions="1",
    )  # fmt: skip
    moved = console.post(
        "/share-groups/actions/seek", group="jobs", offsets=preview.hidden("offsets"),
        confirm="jobs",
    )  # fmt: skip
    assert "Share group jobs: start offsets reset in 1 partition." in moved.text
    forgotten = console.post(
        "/share-groups/actions/delete-offsets", group="jobs", topic=TOPIC, confirm=TOPIC
    )
    assert f"Deleted the state of jobs in {TOPIC}." in forgotten.text
    assert (
        "Deleted share group jobs."
        in console.post("/share-groups/actions/delete", group="jobs", confirm="jobs").text
    )


def test_a_pipeline_is_found_by_its_offsets_and_by_its_checkpoint(
    broker: Broker, tmp_path: Path
) -> None:
    admin = LogAdmin(ReadSettings(broker.bootstrap_servers))
    offsets = {TopicPartition(TOPIC, 0): 5}
    admin.commit("elsewhere", offsets, progress_metadata(412, "8810"))
    admin.commit("orders_to_lake", offsets, progress_metadata(2, "9"))
    checkpoint = Checkpoint(str(tmp_path / "checkpoints" / "lake"))
    with checkpoint.locked("orders_to_lake"), RunHistory(checkpoint.history) as history:
        run = {"host": "worker-3", "pid": 4711, "started_ms": 1, "version": "1"}
        checkpoint.save_run({**run, "spec": {"sink": "a <lake>"}})
        for number, seconds in ((1, 1.0), (2, 3.0)):
            history.add(
                Event(
                    "orders_to_lake",
                    EventKind.BATCH,
                    batch_id=number,
                    rows=7,
                    seconds=seconds,
                    phases={"write": seconds},
                    version=str(number + 7),
                    offsets=offsets,
                )
            )
        with ConsoleClient(broker.bootstrap_servers, pipelines=(str(tmp_path),)) as console:
            listed = eventually(lambda: console.get("/pipelines"), "elsewhere")
            assert "elsewhere unknown" in listed.text
            assert "orders_to_lake running" in listed.text
            page = console.get("/pipelines/orders_to_lake")
            assert "Last run on worker-3, process 4711" in page.text
            assert "Table version 9" in page.text
            assert 'aria-label="write 3 s"' in page.raw
            assert "sink: a <lake>" in page.text
            assert "a &lt;lake&gt;" in page.raw
            other = console.get("/pipelines/elsewhere")
            assert "No checkpoint directory" in other.text
            assert "Table version 8810" in other.text


def read_all(bootstrap: str, topic: str) -> tuple[list[bytes], list[list[tuple[str, bytes]]]]:
    """The committed values and headers of the topic's only partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.assign([At(topic, 0, 0)])
    values, headers = [], []
    while True:
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        if message.error():
            break
        values.append(message.value())
        headers.append(message.headers() or [])
    consumer.close()
    return values, headers


CHANGES = (
    "/groups/actions/seek",
    "/groups/actions/delete",
    "/groups/actions/delete-offsets",
    "/share-groups/actions/seek",
    "/share-groups/actions/delete",
    "/share-groups/actions/delete-offsets",
    "/transactions/actions/abort",
    "/transactions/actions/abort-hanging",
    "/brokers/actions/elect",
    "/brokers/actions/config",
    "/reassignments/actions/start",
    "/reassignments/actions/cancel",
    "/reassignments/actions/unthrottle",
    "/dead-letters/orders.dlq/replay",
    "/users/actions/save",
    "/users/actions/delete",
    "/acls/actions/create",
    "/acls/actions/delete",
    "/quotas/actions/save",
    "/quotas/actions/delete",
)


@pytest.mark.parametrize("path", CHANGES)
def test_a_read_only_console_changes_nothing(read_only: ConsoleClient, path: str) -> None:
    answer = read_only.post(path, confirm="orders.dlq", group="billing")
    assert answer.status == 403
    assert "Nothing was changed" in answer.text


def test_a_read_only_console_offers_no_changes(read_only: ConsoleClient) -> None:
    for path in ROUTES:
        answer = read_only.get(path)
        assert answer.status == 200, path
        assert "/actions/" not in answer.raw, path
    preview = read_only.post(
        "/groups/actions/seek-preview", group="billing", mode="earliest", topic="", partitions=""
    )
    assert preview.status == 200
    assert "This console is read-only." in preview.text
