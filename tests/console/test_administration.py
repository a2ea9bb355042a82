"""The administration screens in a real browser: offsets, dead letters, ACLs, quotas."""

import re

from playwright.sync_api import Page, expect


def test_the_offsets_of_a_group_are_reset_with_the_keyboard_alone(page: Page) -> None:
    page.goto("/groups")
    page.keyboard.press("/")
    page.keyboard.type("bill")
    page.get_by_role("link", name="billing", exact=True).press("Enter")
    expect(page.get_by_role("heading", name="billing", level=1)).to_be_visible()
    page.get_by_role("button", name="Reset offsets").press("Enter")
    offset = page.get_by_label("Offset", exact=True).and_(page.locator("input[name=offset]"))
    offset.focus()
    page.keyboard.type("3")
    expect(page.get_by_role("radio", name="Offset")).to_be_checked()
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("heading", name="Preview: reset the offsets of billing")
    ).to_be_visible()
    expect(page.get_by_text("Nothing has been changed yet.")).to_be_visible()
    move = page.get_by_role("button", name="Reset offsets")
    page.get_by_label("Type billing to confirm").fill("billing")
    move.press("Enter")
    expect(page.get_by_text("Group billing: offsets reset in 6 partitions.")).to_be_visible()


def test_a_dead_letter_is_edited_and_sent_again(page: Page) -> None:
    page.goto("/dead-letters")
    page.get_by_role("link", name="orders.dlq").click()
    page.get_by_role("link", name="NotJson").click()
    page.get_by_role("link", name="0 / 1", exact=True).click()
    page.get_by_role("textbox", name="Value").fill('{"id": 1}')
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("1 to orders")).to_be_visible()
    page.get_by_label("Type orders.dlq to confirm").fill("orders.dlq")
    page.get_by_role("button", name="Replay 1 record").click()
    expect(page.get_by_text("The replay has ended")).to_be_visible(timeout=15_000)
    page.get_by_role("link", name="Back to the dead letters").click()
    expect(page.get_by_text("console: anonymous")).to_be_visible()


def test_an_acl_decides_and_is_deleted_by_typing_its_principal(page: Page) -> None:
    page.goto("/acls")
    page.get_by_role("button", name="Create ACL").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Principal").fill("User:carol")
    dialog.get_by_label("Name").fill("orders")
    dialog.get_by_role("button", name="Create ACL").click()
    expect(page.get_by_text("Created: allow User:carol to read topic orders.")).to_be_visible()
    page.get_by_label("Principal", exact=True).first.fill("User:carol")
    page.get_by_label("Name", exact=True).first.fill("orders")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("allowed by an ACL")).to_be_visible()
    page.get_by_role("button", name=re.compile("Delete ?: allow User:carol to read")).click()
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name="Delete ACL")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Type User:carol to confirm").fill("User:carol")
    confirm.click()
    expect(page.get_by_text("Deleted: allow User:carol to read topic orders.")).to_be_visible()


def test_a_quota_is_set_by_naming_its_entity(page: Page) -> None:
    page.goto("/quotas")
    page.get_by_role("button", name="Set a quota").click()
    page.get_by_label("Name of the user").fill("alice")
    expect(page.get_by_label("User", exact=True)).to_have_value("named")
    page.get_by_label("producer_byte_rate").fill("1MB")
    page.get_by_role("dialog").get_by_role("button", name="Set quota", exact=True).click()
    expect(page.get_by_role("cell", name="1MB/s")).to_be_visible()
