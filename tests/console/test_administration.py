"""The administration screens in a real browser: moves, dead letters, ACLs, quotas, axe-core."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, BrowserContext, Page, expect

from headrace.pipeline.dead_letters.headers import Facts, letter_headers
from headrace.testing import Broker
from support.console.browser import fill
from support.console.served_console import ServedConsole, served

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SCREENS = (
    "/groups",
    "/groups/billing",
    "/share-groups",
    "/transactions",
    "/transactions/hanging",
    "/brokers",
    "/brokers/1",
    "/brokers/1?tab=settings",
    "/reassignments",
    "/dead-letters",
    "/dead-letters/orders.dlq",
    "/dead-letters/orders.dlq/letters/0/0",
    "/pipelines",
    "/users",
    "/acls?check_principal=User:alice&check_operation=read&check_type=topic&check_name=orders",
    "/quotas",
)
SIMPLE = {"/groups", "/share-groups", "/transactions/hanging", "/brokers", "/dead-letters"}
"""Made of the same parts as the others; axe takes most of the time of these tests."""
RULES = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
SERIOUS = {"serious", "critical"}
DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def administered() -> Iterator[ServedConsole]:
    """A console of a broker with an authorizer and dead letters."""
    with Broker(settings=SETTINGS) as broker:
        fill(broker.bootstrap_servers)
        _write_dead_letters(broker.bootstrap_servers)
        with served(broker.bootstrap_servers, refresh_s=0.3) as console:
            yield console


def _write_dead_letters(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic("orders.dlq", 1)]).values():
        made.result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(3):
        facts = Facts("orders", 0, number, 1_000, "NotJson", f"at byte {number}", "lake", 1, 1)
        value = b'{"id": %d "x": "<img src=x onerror=alert(1)>"}' % number
        producer.produce("orders.dlq", value, headers=list(letter_headers((), facts)))
    assert producer.flush(DEADLINE_S) == 0


@pytest.fixture
def tab(browser: Browser, administered: ServedConsole) -> Iterator[Page]:
    context: BrowserContext = browser.new_context(base_url=administered.server.address)
    context.set_default_timeout(10_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    assert problems == []
    context.close()


def test_no_serious_finding_of_axe_and_no_overflow(
    browser: Browser, administered: ServedConsole
) -> None:
    # axe itself is injected as a script, which the CSP forbids.
    page = browser.new_page(base_url=administered.server.address, bypass_csp=True)
    page.set_viewport_size({"width": 360, "height": 740})
    problems = []
    for index, path in enumerate(SCREENS):
        page.emulate_media(color_scheme="dark" if index % 2 else "light")
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 360:
            problems.append(f"{path} is {width} wide")
        if path in SIMPLE:
            continue
        found = Axe().run(page, options=RULES).response["violations"]
        problems += [
            f"{path}: {each['id']}: {each['nodes'][0]['html'][:150]}"
            for each in found
            if each["impact"] in SERIOUS
        ]
    page.close()
    assert problems == []


def test_a_group_is_moved_with_the_keyboard_alone(tab: Page) -> None:
    tab.goto("/groups")
    tab.keyboard.press("/")
    tab.keyboard.type("bill")
    tab.get_by_role("link", name="billing", exact=True).press("Enter")
    expect(tab.get_by_role("heading", name="billing", level=1)).to_be_visible()
    tab.get_by_role("button", name="Move offsets").press("Enter")
    offset = tab.get_by_label("Offset", exact=True).and_(tab.locator("input[name=offset]"))
    offset.focus()
    tab.keyboard.type("3")
    expect(tab.get_by_role("radio", name="Offset")).to_be_checked()
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Preview: move billing")).to_be_visible()
    expect(tab.get_by_text("Nothing has been changed yet.")).to_be_visible()
    move = tab.get_by_role("button", name="Move the group")
    tab.get_by_label("Type billing to confirm").fill("billing")
    move.press("Enter")
    expect(tab.get_by_text("Group billing: moved in 6 partitions.")).to_be_visible()


def test_a_dead_letter_is_edited_and_sent_again(tab: Page) -> None:
    tab.goto("/dead-letters")
    tab.get_by_role("link", name="orders.dlq").click()
    tab.get_by_role("link", name="NotJson").click()
    tab.get_by_role("link", name=re.compile("^0 : 1$")).click()
    tab.get_by_role("textbox", name="Value").fill('{"id": 1}')
    tab.get_by_role("button", name="Preview").click()
    expect(tab.get_by_text("1 to orders")).to_be_visible()
    tab.get_by_label("Type orders.dlq to confirm").fill("orders.dlq")
    tab.get_by_role("button", name="Send 1 record").click()
    expect(tab.get_by_text("The replay has ended")).to_be_visible(timeout=15_000)
    tab.get_by_role("link", name="Dead letters", exact=True).last.click()
    expect(tab.get_by_text("console: anonymous")).to_be_visible()


def test_an_acl_decides_and_is_deleted_by_typing_its_principal(tab: Page) -> None:
    tab.goto("/acls")
    tab.get_by_role("button", name="Create ACL").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_label("Principal").fill("User:carol")
    dialog.get_by_label("Name").fill("orders")
    dialog.get_by_role("button", name="Create ACL").click()
    expect(tab.get_by_text("Created: allow User:carol to read topic orders.")).to_be_visible()
    tab.get_by_label("Principal", exact=True).first.fill("User:carol")
    tab.get_by_label("Name", exact=True).first.fill("orders")
    tab.get_by_role("button", name="Check").click()
    expect(tab.get_by_text("allowed by an ACL")).to_be_visible()
    tab.get_by_role("button", name=re.compile("Delete ?: allow User:carol to read")).click()
    dialog = tab.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Delete ACL")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Type User:carol to confirm").fill("User:carol")
    confirm.click()
    expect(tab.get_by_text("Deleted: allow User:carol to read topic orders.")).to_be_visible()


def test_a_quota_is_set_by_naming_its_entity(tab: Page) -> None:
    tab.goto("/quotas")
    tab.get_by_role("button", name="Set a quota").click()
    tab.get_by_label("Name of the user").fill("alice")
    expect(tab.get_by_label("User", exact=True)).to_have_value("named")
    tab.get_by_label("producer_byte_rate").fill("1MB")
    tab.get_by_role("dialog").get_by_role("button", name="Set", exact=True).click()
    expect(tab.get_by_role("cell", name="1MB/s")).to_be_visible()
