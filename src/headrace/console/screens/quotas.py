"""Client quotas: list, set, remove."""

import math
from typing import Final

from starlette.responses import Response

from headrace.client.admin.quotas import alter_quota, list_quotas
from headrace.console.screens.unsupported import Unavailable, unavailable_reason
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post
from headrace.operations.quota_text import BYTE_RATES, read_byte_rate, show_entity, show_limit
from headrace.security.quotas.client_quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    USER_CLIENT_KEYS,
    QuotaEntity,
)

CACHE_S: Final = 2.0
KEYS: Final = (*USER_CLIENT_KEYS, CONNECTION_CREATION_RATE)
TYPES: Final = (USER, CLIENT_ID, IP)
DEFAULT_NAME: Final = ""
"""In forms: the default entity of a type. Names of entities are never empty."""


async def show_list(page: Page) -> Response:
    search = page.query("q")
    unavailable: Unavailable | None = None
    rows: list[tuple[QuotaEntity, str, dict[str, float]]] = []
    try:
        found = await page.cluster.cached(
            "quotas", CACHE_S, lambda: list_quotas(page.client, timeout_s=page.timeout_s)
        )
    except Exception as error:  # what is expected becomes a part of the page
        unavailable = unavailable_reason(error, "quotas")
    else:
        rows = [
            (entity, show_entity(entity), dict(limits))
            for entity, limits in found.items()
            if search.lower() in show_entity(entity).lower()
        ]
    return page.render(
        "quotas.html",
        quotas=paged(rows, page.integer("page", 1, low=1), page.integer("size", DEFAULT_PAGE_SIZE)),
        unavailable=unavailable,
        search=search,
        keys=KEYS,
        show_limit=show_limit,
    )


def entity_of(page: Page) -> QuotaEntity:
    """The entity of the form: a type has a name, is the default, or does not count."""
    parts: dict[str, str | None] = {}
    for type_ in TYPES:
        mode, name = page.field(f"{type_}-mode"), page.field(f"{type_}-name").strip()
        if mode == "default":
            parts[type_] = None
        elif mode == "named":
            if not name:
                raise _bad(f"The {type_} needs a name")
            parts[type_] = name
    if not parts:
        raise _bad("Choose whose quota it is")
    if IP in parts and len(parts) > 1:
        raise _bad("The quota of an address has no user and no client id")
    return QuotaEntity(tuple(sorted(parts.items())))


def limit_of(key: str, text: str) -> float | None:
    """A limit of the form; None removes it."""
    text = text.strip()
    if not text:
        return None
    if key in BYTE_RATES:
        rate = read_byte_rate(text)
        if rate is None:
            raise _bad(f"{key} is bytes per second such as 1MB or 512KiB, not {text[:40]!r}")
        return float(rate)
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise _bad(f"{key} is a number above 0, not {text[:40]!r}")
    return value


async def save(page: Page) -> Response:
    """Sets the limits that the form names; empty fields change nothing."""
    entity = entity_of(page)
    limits = {key: limit_of(key, page.field(key)) for key in KEYS}
    changes = {key: value for key, value in limits.items() if value is not None}
    if not changes:
        raise _bad("Set at least one limit")
    refused = await alter_quota(page.client, entity, changes, timeout_s=page.timeout_s)
    name = show_entity(entity)
    page.done(refused, f"The quota of {name} was not changed", f"Set the quota of {name}.")
    return page.redirect("/quotas")


async def delete(page: Page) -> Response:
    """Removes one limit, or all limits, of an entity."""
    entity = entity_of(page)
    name = show_entity(entity)
    page.require_name(name)
    key = page.field("key")
    known = await list_quotas(page.client, timeout_s=page.timeout_s)
    limits = known.get(entity, {})
    wanted = [each for each in limits if key in ("", each)]
    if not wanted:
        raise PageError(404, "No such quota", f"{name} has no such limit. Nothing was changed.")
    refused = await alter_quota(
        page.client, entity, dict.fromkeys(wanted), timeout_s=page.timeout_s
    )
    page.done(refused, f"The quota of {name} was not deleted", f"Deleted the quota of {name}.")
    return page.redirect("/quotas")


def _bad(detail: str) -> PageError:
    return PageError(400, "The form is incomplete", f"{detail}. Nothing was changed.")


SCREEN: Final = Screen(
    "quotas",
    (
        get("/quotas", show_list),
        post("/quotas/actions/save", save),
        post("/quotas/actions/delete", delete),
    ),
)
