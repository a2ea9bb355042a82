"""The console's pages against a real broker, as a browser without JavaScript sees them."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.testing import Broker
from support.console.served_console import ServedConsole, Visitor, served
from support.waiting import wait_for

LARGE = 10_000_000
HOSTILE = b"<script>alert(1)</script><img src=x onerror=alert(2)> \x1b[2J\x00 \"&'"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.headrace.create_topic("orders", partitions=3)
        large = {"max.message.bytes": 12_000_000}
        broker.headrace.create_topic("hostile", partitions=1, configs=large)
        broker.headrace.create_topic("doomed", partitions=1)
        settings: dict[str, str | int] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "message.max.bytes": 12_000_000,
        }
        producer = Producer(settings)
        for number in range(300):
            value = json.dumps({"id": number, "customer": {"name": f"c{number % 7}"}})
            producer.produce(
                "orders",
                key=f"k{number % 7}",
                value=value,
                headers={"trace": f"t-{number}"},
                partition=number % 3,
            )
        producer.produce("hostile", key=HOSTILE, value=HOSTILE, headers={"<b>": HOSTILE})
        producer.produce("hostile", value=b"\x00\xff\xfe" * 300)
        producer.produce("hostile", value=b"x" * LARGE)
        producer.flush()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
        read = [TopicPartition("orders", 0, 40)]
        consumer.commit(offsets=read, asynchronous=False)
        consumer.close()
        yield broker


@pytest.fixture(scope="module")
def console(broker: Broker) -> Iterator[ServedConsole]:
    with served(broker.bootstrap_servers) as console:
        yield console


@pytest.fixture
def visitor(console: ServedConsole) -> Visitor:
    return console.visitor()


def records_of(visitor: Visitor, query: str, topic: str = "orders") -> list[dict[str, object]]:
    events = visitor.events(f"/topics/{topic}/messages/stream?{query}")
    assert events[-1][0] == "ended", events
    assert not [data for name, data in events if name == "problem"]
    return [json.loads(data) for name, data in events if name == "record"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "All brokers answer"),
        ("/topics", "orders"),
        ("/topics?q=ord&sort=records&order=desc", "orders"),
        ("/topics/orders", "Partitions"),
        ("/topics/orders?tab=settings", "retention.ms"),
        ("/topics/orders?tab=settings&q=cleanup.policy", "cleanup.policy"),
        ("/topics/orders?tab=consumers", "billing"),
        ("/topics/orders/messages", "data-search="),
        ("/topics/orders/messages/0/0", "&#34;customer&#34;"),
        ("/topics/orders/produce", "Send record"),
        ("/topics/orders/produce?copy=0/0", "trace=t-0"),
    ],
)
def test_each_page_is_served(visitor: Visitor, path: str, text: str) -> None:
    reply = visitor.get(path)
    assert reply.status == 200, reply.text
    assert text in reply.text
    assert "<style" not in reply.text
    assert "style=" not in reply.text
    assert "<script>" not in reply.text


def test_the_settings_of_a_topic_show_their_documentation_and_source(visitor: Visitor) -> None:
    reply = visitor.get("/topics/orders?tab=settings&q=retention.ms")
    assert "default" in reply.text
    assert 'class="hint"' in reply.text


def test_lag_is_shown_in_the_list_of_topics(visitor: Visitor) -> None:
    reply = visitor.get("/topics?q=orders")
    row = reply.text[reply.text.index('href="/topics/orders"') :].split("</tr>")[0]
    assert ">60</a>" in row


def test_an_unknown_topic_is_not_found_and_a_near_name_is_suggested(visitor: Visitor) -> None:
    reply = visitor.get("/topics/ordesr")
    assert reply.status == 404
    assert "Did you mean &#39;orders&#39;?" in reply.text


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("from=newest&limit=3", [297, 298, 299]),
        ("from=oldest&limit=3", [0, 1, 2]),
        ("from=offset&offset=99&limit=9", [297, 298, 299]),
        ("partition=1&from=oldest&limit=2", [1, 4]),
        ("from=oldest&text=%22id%22:%20123,", [123]),
        ("text=%22ID%22:%20123,&any_case=1", [123]),
        ("text=t-299", [299]),
        ("header=trace=t-42", [42]),
        ("key=k3&partition=0&from=oldest&limit=2", [3, 24]),
        ("where=$.customer.name&from=oldest&limit=3", None),
        ("where=@.id%20%3E%20297", [298, 299]),
        ("where=@.customer.name%20==%20'c5'%20%26%26%20@.id%20%3C%2015", [5, 12]),
        ("text=nowhere", []),
    ],
)
def test_records_are_found(visitor: Visitor, query: str, ids: list[int] | None) -> None:
    found = sorted(json.loads(str(each["value"]))["id"] for each in records_of(visitor, query))
    if ids is None:
        assert len(found) >= 3
    else:
        assert found == ids


@pytest.mark.parametrize(
    "query", ["where=$[", "from=time&time=soon", "partition=9", "key=x&key_as=hex"]
)
def test_a_search_that_cannot_run_says_why(visitor: Visitor, query: str) -> None:
    assert visitor.get(f"/topics/orders/messages/stream?{query}").status == 400
    assert 'role="alert"' in visitor.get(f"/topics/orders/messages?{query}").text


def test_a_live_tail_shows_a_record_that_is_written_later(visitor: Visitor, broker: Broker) -> None:
    visitor.get("/")
    with visitor.stream("/topics/doomed/messages/stream?from=tail") as response:
        assert response.status == 200
        written = 0
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for line in iter(response.readline, b""):
            if not written:  # the stream is open; the tail may begin a moment later
                written = 1
            producer.produce("doomed", b"live one")
            producer.flush()
            if b"live one" in line:
                return
    raise AssertionError("the stream ended before the record came")


def test_hostile_contents_are_shown_as_text(visitor: Visitor) -> None:
    page = visitor.get("/topics/hostile/messages/0/0").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page
    assert "\u27e8U+001B\u27e9[2J\u27e8U+0000\u27e9" in page
    binary = visitor.get("/topics/hostile/messages/0/1").text
    assert "00 ff fe" in binary


def test_a_large_value_is_truncated_and_downloaded_whole(visitor: Visitor) -> None:
    page = visitor.get("/topics/hostile/messages/0/2")
    assert "Only the beginning is shown" in page.text
    assert len(page.text) < 200_000
    rows = records_of(visitor, "from=newest&limit=1", "hostile")
    assert len(str(rows[0]["value"])) < 1000
    value = visitor.get("/topics/hostile/messages/0/2/value")
    assert len(value.text) == LARGE
    assert value.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in value.headers["content-security-policy"]


def test_a_topic_is_created_changed_grown_emptied_and_deleted(visitor: Visitor) -> None:
    visitor.get("/topics")
    form = {"name": "made", "partitions": "2", "configs": "retention.ms=1000\n"}
    assert visitor.post("/topics", form).headers["location"] == "/topics/made"
    visitor.post("/topics/made/settings", {"name": "retention.ms", "value": "2000"})
    assert "2000" in visitor.get("/topics/made?tab=settings&q=retention.ms").text
    visitor.post("/topics/made/settings", {"name": "retention.ms", "reset": "1"})
    visitor.post("/topics/made/partitions", {"total": "3"})
    assert "3 partitions" in visitor.get("/topics/made").text
    visitor.post("/topics/made/produce", {"key_as": "null", "value": "v", "value_as": "text"})
    assert visitor.post("/topics/made/empty", {"confirm": "made"}).status == 303
    assert visitor.post("/topics/made/delete", {"confirm": "wrong"}).status == 400
    assert visitor.get("/topics/made").status == 200
    assert visitor.post("/topics/made/delete", {"confirm": "made"}).status == 303
    assert visitor.get("/topics/made").status == 404


def test_a_refused_change_is_shown_with_the_brokers_reason(visitor: Visitor) -> None:
    visitor.get("/topics")
    visitor.post("/topics/orders/settings", {"name": "retention.ms", "value": "soon"})
    page = visitor.get("/topics/orders?tab=settings").text
    assert "retention.ms was not changed" in page
    assert "INVALID_CONFIG" in page


def test_a_record_is_written_and_copied_with_the_same_bytes(visitor: Visitor) -> None:
    visitor.get("/topics")
    form = {
        "partition": "0",
        "key": "00 ff",
        "key_as": "hex",
        "value": '{"a": 1}',
        "value_as": "json",
        "headers": "a=1\nb\nc:=AP8=",
    }
    path = visitor.post("/topics/doomed/produce", form).headers["location"]
    assert visitor.get(path).status == 200
    assert visitor.get(path + "/key").text.encode("utf-8", "surrogateescape") == b"\x00\xff"
    offset = path.rsplit("/", 1)[1]
    copy = visitor.get(f"/topics/doomed/produce?copy=0/{offset}").text
    assert "AP8=" in copy
    assert "c:=AP8=" in copy


@pytest.mark.parametrize(
    "form",
    [
        {"key": "zz", "key_as": "hex", "value_as": "null"},
        {"value": "{", "value_as": "json", "key_as": "null"},
        {"partition": "99", "key_as": "null", "value_as": "null"},
    ],
)
def test_an_invalid_record_is_not_written(visitor: Visitor, form: dict[str, str]) -> None:
    visitor.get("/topics")
    reply = visitor.post("/topics/orders/produce", form)
    assert reply.status == 400
    assert "Not written" in reply.text


def test_a_form_without_the_sessions_token_changes_nothing(visitor: Visitor) -> None:
    visitor.get("/topics")
    reply = visitor.post("/topics", {"csrf": "guess", "name": "forged"})
    assert reply.status == 403
    elsewhere = visitor.post("/topics", {"name": "forged"}, {"Sec-Fetch-Site": "cross-site"})
    assert elsewhere.status == 403
    assert visitor.get("/topics/forged").status == 404


def test_every_response_has_the_security_headers(visitor: Visitor) -> None:
    for path in ("/", "/nope", "/static/console.css", "/healthz"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_another_host_name_is_refused(visitor: Visitor) -> None:
    """DNS rebinding: another site's name that leads to this address."""
    reply = visitor.get("/", {"Host": "evil.example"})
    assert reply.status == 421
    assert "orders" not in reply.text


def test_the_session_cookie_is_strict_and_has_no_credentials(console: ServedConsole) -> None:
    cookie = console.visitor().get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_read_only_mode_refuses_every_change(broker: Broker) -> None:
    with served(broker.bootstrap_servers, read_only=True) as console:
        visitor = console.visitor()
        page = visitor.get("/topics/orders")
        assert "Read-only" in page.text
        assert "Delete topic" not in page.text
        for path in ("/topics", "/topics/orders/delete", "/topics/orders/produce"):
            reply = visitor.post(path, {"name": "x", "confirm": "orders"})
            assert reply.status == 403
            assert "Read-only" in reply.text


def test_a_dead_cluster_has_a_page_of_its_own_and_keeps_the_last_numbers() -> None:
    with Broker() as broker:
        broker.headrace.create_topic("orders")
        with served(broker.bootstrap_servers, refresh_s=0.1, request_timeout_s=0.5) as console:
            visitor = console.visitor()
            assert visitor.get("/").status == 200
            broker.stop()
            wait_for(
                lambda: "Not connected" in visitor.get("/topics").text,
                "the lost connection is shown",
            )
            assert "orders" in visitor.get("/topics").text
            assert "Critical" in visitor.get("/").text
            assert visitor.get("/topics/orders/messages/0/0").status == 504
