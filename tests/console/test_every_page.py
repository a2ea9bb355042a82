"""Every page in a real browser: no serious finding of axe-core, and no overflow at 360 px."""

from collections.abc import Iterator, Mapping

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from support.console.scene import PAGES
from support.console.served_console import ServedConsole, served

LOGIN = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_PLAINTEXT",
}
TOKEN = {**LOGIN, "sasl.mechanism": "PLAIN", "sasl.username": "console", "sasl.password": "x"}
RULES = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
"""Only the colours differ in the other scheme, and axe takes most of the time of these tests."""
WIDER = """
    document.documentElement.scrollWidth <= innerWidth ? [] :
    [...document.querySelectorAll("main *")].filter((each) => each.clientWidth > innerWidth - 24)
    .map((each) => each.outerHTML.slice(0, 200))
"""
"""The elements that make the page wider than the window."""
SERIOUS = {"serious", "critical"}
NARROW_PX = 360


@pytest.fixture(scope="module")
def checked_page(browser: Browser, console: ServedConsole) -> Iterator[Page]:
    """A narrow tab for axe, which is injected as a script and so forbidden by the CSP."""
    page = browser.new_page(
        base_url=console.server.address,
        bypass_csp=True,
        viewport={"width": NARROW_PX, "height": 740},
    )
    yield page
    page.close()


def findings(page: Page, rules: Mapping[str, object]) -> list[str]:
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in Axe().run(page, options=rules).response["violations"]
        if each["impact"] in SERIOUS
    ]


def check(page: Page, path: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(path)
    if "/messages?" in path:
        expect(page.locator("table.records tbody tr")).not_to_have_count(0)
    assert page.evaluate(WIDER) == []
    assert findings(page, RULES) == []
    page.emulate_media(color_scheme="dark")
    assert findings(page, CONTRAST) == []


@pytest.mark.parametrize("path", [*PAGES.values(), "/topics/nowhere"])
def test_each_page_is_accessible_and_fits_a_narrow_screen(checked_page: Page, path: str) -> None:
    check(checked_page, path)


def test_the_navigation_of_a_wide_screen_is_accessible(checked_page: Page) -> None:
    checked_page.set_viewport_size({"width": 1600, "height": 900})
    checked_page.emulate_media(color_scheme="light")
    checked_page.goto("/topics")
    assert findings(checked_page, RULES) == []
    checked_page.set_viewport_size({"width": NARROW_PX, "height": 740})


@pytest.mark.parametrize("client", [LOGIN, TOKEN], ids=["password", "token"])
def test_the_login_page_is_accessible_and_fits_a_narrow_screen(
    checked_page: Page, client: dict[str, str]
) -> None:
    with served(client) as console:
        check(checked_page, f"{console.server.address}login")
        expect(checked_page.get_by_role("heading", name="Headrace console")).to_be_visible()
