"""The console in a real browser: search, changes, keyboard, themes, narrow screens."""

import re

from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.console.served_console import ServedConsole


def test_the_overview_draws_charts_and_goes_on_by_itself(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_text("All brokers answer")).to_be_visible()
    expect(page.locator(".plot svg path.line").first).to_be_attached(timeout=12_000)


def test_a_search_for_topics_applies_while_typing(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("/")
    page.keyboard.type("ship")
    expect(page.get_by_role("link", name="orders", exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="shipments", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("q=ship"))


def test_records_are_searched_by_text_and_opened(page: Page) -> None:
    page.goto("/topics/orders/messages")
    page.get_by_label("JSONPath").fill("@.id == 36")
    page.get_by_role("button", name="Search").click()
    rows = page.locator("table.records tbody tr")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("Searched to the end.")).to_be_visible()
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name=re.compile("Record"))).to_be_visible()
    expect(page.locator("pre.value").first).to_contain_text('"id": 36')


def test_a_live_tail_shows_what_is_produced_in_another_tab(
    page: Page, context: BrowserContext
) -> None:
    page.goto("/topics/payments/messages?from=tail")
    expect(page.get_by_text("Waiting for new records")).to_be_visible()
    other = context.new_page()
    rows = page.locator("table.records tbody tr")
    for _ in range(20):  # the tail may begin after the first record
        other.goto("/topics/payments/produce")
        other.get_by_label("Value", exact=True).fill('{"live": true}')
        other.get_by_role("button", name="Send record").click()
        expect(other.get_by_text("Written to payments-")).to_be_visible()
        if rows.count():
            break
    expect(rows.first).to_contain_text('"live": true')
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()


def test_hostile_records_do_nothing(page: Page) -> None:
    page.goto("/topics/hostile/messages?partition=0")
    expect(page.locator("table.records tbody tr")).to_have_count(4)
    assert page.title() == "Messages of hostile · Headrace console"
    assert page.locator("table.records img, table.records script").count() == 0
    for offset in range(4):
        page.goto(f"/topics/hostile/messages/0/{offset}")
        assert page.title().startswith("Record 0/")
        assert page.locator("pre img, pre script").count() == 0


def test_a_topic_is_created_and_deleted_after_its_name_is_typed(page: Page) -> None:
    page.goto("/topics")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.get_by_label("Name", exact=True).fill("short-lived")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Created topic short-lived.")).to_be_visible()
    page.get_by_role("button", name="Delete topic").click()
    dialog = page.get_by_role("dialog")
    submit = dialog.get_by_role("button", name="Delete topic")
    expect(submit).to_be_disabled()
    page.keyboard.type("short-live")
    expect(submit).to_be_disabled()
    page.keyboard.type("d")
    expect(submit).to_be_enabled()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Deleted topic short-lived.")).to_be_visible()


def test_a_dialog_closes_with_escape_and_returns_the_focus(page: Page) -> None:
    page.goto("/topics")
    opener = page.get_by_role("button", name="Create topic")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_the_keyboard_reaches_the_content_and_every_link_shows_its_focus(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_the_theme_is_kept_on_the_next_page(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/")
    page.get_by_role("button", name="Switch between light and dark").click()
    page.goto("/topics")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_the_menu_of_a_narrow_screen_opens_and_closes(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/topics")
    link = page.get_by_role("navigation", name="Screens").get_by_role("link", name="Overview")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()


def test_live_updates_can_be_paused(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Pause updates").click()
    expect(page.get_by_role("button", name="Resume updates")).to_be_visible()


def test_the_console_says_so_when_it_is_gone(browser: Browser, console: ServedConsole) -> None:
    page = browser.new_page(base_url=console.server.address)
    page.goto("/")
    page.context.set_offline(True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # refreshes at once
    expect(page.get_by_text("The console does not answer")).to_be_visible()
    page.close()
