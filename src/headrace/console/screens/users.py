"""SCRAM users: list, create, change a password, delete a credential."""

import asyncio
from typing import Final, NamedTuple

from starlette.responses import Response

from headrace.client.admin.users import (
    CredentialDeletion,
    UserCredential,
    alter_users,
    describe_users,
)
from headrace.client.results import Refusal
from headrace.console.screens.unsupported import Unavailable, unavailable_reason
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post
from headrace.operations.user_passwords import (
    DEFAULT_ITERATIONS,
    DEFAULT_MECHANISM,
    generate_password,
    new_credential,
    password_problem,
)
from headrace.security.sasl.scram_credential import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
)

CACHE_S: Final = 2.0


class UserRow(NamedTuple):
    """One user, with credentials or the reason why they are not shown."""

    name: str
    credentials: tuple[UserCredential, ...]
    problem: str | None


def row_of(name: str, found: list[UserCredential] | Refusal) -> UserRow:
    if isinstance(found, Refusal):
        return UserRow(name, (), str(found))
    return UserRow(name, tuple(found), None)


async def show_list(page: Page) -> Response:
    search = page.query("q")
    unavailable: Unavailable | None = None
    rows: list[UserRow] = []
    try:
        found = await page.cluster.cached(
            "users", CACHE_S, lambda: describe_users(page.client, timeout_s=page.timeout_s)
        )
    except Exception as error:  # what is expected becomes a part of the page
        unavailable = unavailable_reason(error, "SCRAM users")
    else:
        rows = [
            UserRow(name, (), str(of))
            if isinstance(of, Refusal)
            else UserRow(name, tuple(of), None)
            for name, of in sorted(found.items())
            if search.lower() in name.lower()
        ]
    return page.render(
        "users.html",
        users=paged(rows, page.integer("page", 1, low=1), page.integer("size", DEFAULT_PAGE_SIZE)),
        unavailable=unavailable,
        search=search,
        mechanisms=list(SCRAM_MECHANISMS),
        default_mechanism=DEFAULT_MECHANISM.mechanism_name,
        default_iterations=DEFAULT_ITERATIONS,
        min_iterations=MIN_ITERATIONS,
        max_iterations=MAX_ITERATIONS,
    )


async def save(page: Page) -> Response:
    """Creates a user, or sets a new password. A generated password is shown once."""
    name, mechanism = page.field("name").strip(), mechanism_of(page.field("mechanism"))
    if not name:
        raise PageError(400, "No name", "A user needs a name. Nothing was changed.")
    iterations = iterations_of(page.field("iterations"))
    password = page.field("password")
    generated = not password
    if generated:
        password = generate_password()
    problem = password_problem(password)
    if problem is not None:
        raise PageError(400, "Password refused", f"The password {problem}. Nothing was changed.")
    credential = new_credential(name, mechanism, password, iterations)
    # Hashing takes some milliseconds for each thousand iterations.
    await asyncio.to_thread(lambda: credential.salted_password)
    refused = (await alter_users(page.client, [credential], timeout_s=page.timeout_s)).get(name)
    what = mechanism.mechanism_name
    if page.done(refused, f"User {name} was not saved", f"Saved {what} of user {name}."):
        if generated:
            page.flash(f"Password of {name}, shown only now: {password}", "warning")
        return page.redirect("/users")
    return page.redirect("/users")


async def delete(page: Page) -> Response:
    name, mechanism = page.field("name"), mechanism_of(page.field("mechanism"))
    page.require_name(name)
    deletion = CredentialDeletion(name, mechanism)
    refused = (await alter_users(page.client, [deletion], timeout_s=page.timeout_s)).get(name)
    page.done(
        refused,
        f"{mechanism.mechanism_name} of {name} was not deleted",
        f"Deleted {mechanism.mechanism_name} of user {name}.",
    )
    return page.redirect("/users")


def mechanism_of(name: str) -> ScramMechanism:
    found = SCRAM_MECHANISMS.get(name)
    if found is None:
        raise PageError(400, "No mechanism", f"{name[:40]!r} is not a SCRAM mechanism.")
    return found


def iterations_of(text: str) -> int:
    text = text.strip()
    if not text:
        return DEFAULT_ITERATIONS
    if not (text.isascii() and text.isdecimal()) or not (
        MIN_ITERATIONS <= int(text[:9]) <= MAX_ITERATIONS
    ):
        raise PageError(
            400,
            "Iterations out of range",
            f"Iterations are {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {text[:20]!r}.",
        )
    return int(text)


SCREEN: Final = Screen(
    "users",
    (
        get("/users", show_list),
        post("/users/actions/save", save),
        post("/users/actions/delete", delete),
    ),
)
