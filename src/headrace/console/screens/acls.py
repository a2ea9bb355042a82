"""ACLs: list, create, delete; and which rule decides what a principal may do."""

from ipaddress import ip_address
from typing import Final, NamedTuple, TypeVar

from starlette.responses import Response

from headrace.client.admin.acls import create_acls, delete_acls, list_acls
from headrace.console.screens.unsupported import Unavailable, unavailable_reason
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.pagination import DEFAULT_PAGE_SIZE, paged
from headrace.console.web.screen import Screen, get, post
from headrace.operations.acl_text import rule_of, word_of
from headrace.security.authorization.acl import (
    ANY_HOST,
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    Code,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_filter import AclFilter
from headrace.security.authorization.acl_index import AclIndex
from headrace.security.authorization.authorizer import Authorizer, Decision, Reason
from headrace.security.principal import InvalidPrincipal, parse_principal

CACHE_S: Final = 2.0
TYPES: Final = tuple(SUPPORTED_OPERATIONS)
PERMISSIONS: Final = (AclPermission.ALLOW, AclPermission.DENY)
PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)

CodeT = TypeVar("CodeT", bound=Code)


class Check(NamedTuple):
    """The question of the form, and the decision if it was asked."""

    principal: str = ""
    operation: str = "read"
    type: str = "topic"
    name: str = ""
    host: str = ""
    decision: Decision | None = None

    @property
    def is_open(self) -> bool:
        """Whether `allow.everyone.if.no.acl.found` would change the decision."""
        return self.decision is not None and self.decision.reason is Reason.NO_ACL_ON_RESOURCE


async def show_list(page: Page) -> Response:
    search, type_ = page.query("q"), page.query("type")
    unavailable: Unavailable | None = None
    acls: list[Acl] = []
    check = Check()
    try:
        found = await page.cluster.cached(
            "acls", CACHE_S, lambda: list_acls(page.client, timeout_s=page.timeout_s)
        )
        check = await _checked(page)
    except PageError:
        raise
    except Exception as error:  # what is expected becomes a part of the page
        unavailable = unavailable_reason(error, "ACLs")
    else:
        acls = [
            acl
            for acl in found
            if (not type_ or word_of(acl.pattern.type) == type_)
            and search.lower() in f"{acl.principal} {acl.pattern.name} {acl.host}".lower()
        ]
    return page.render(
        "acls.html",
        acls=paged(acls, page.integer("page", 1, low=1), page.integer("size", DEFAULT_PAGE_SIZE)),
        unavailable=unavailable,
        search=search,
        type=type_,
        types=[word_of(each) for each in TYPES],
        operations=[word_of(each) for each in all_operations()],
        permissions=[word_of(each) for each in PERMISSIONS],
        patterns=[word_of(each) for each in PATTERNS],
        check=check,
        word_of=word_of,
        rule_of=rule_of,
    )


def all_operations() -> list[AclOperation]:
    """Every operation that a resource has, and ALL."""
    known = {each for operations in SUPPORTED_OPERATIONS.values() for each in operations}
    return [AclOperation.ALL, *sorted(known - {AclOperation.ALL})]


async def _checked(page: Page) -> Check:
    """The decision of the broker's own authorizer over the cluster's ACLs."""
    principal = page.query("check_principal")
    if not principal:
        return Check()
    type_ = code_named(AclResourceType, page.query("check_type"), "resource type")
    operation = code_named(AclOperation, page.query("check_operation"), "operation")
    check_operation(operation, type_)
    name = name_for(type_, page.query("check_name"))
    host = page.query("check_host") or ANY_HOST
    check_host(host)
    applying = AclFilter(type_, name, PatternType.MATCH)
    acls = await list_acls(page.client, applying, timeout_s=page.timeout_s)
    who = parse_principal(principal_of(principal))
    decision = Authorizer(AclIndex(acls)).decide(who, host, operation, type_, name)
    return Check(
        principal, word_of(operation), word_of(type_), page.query("check_name"),
        "" if host == ANY_HOST else host, decision,
    )  # fmt: skip


async def create(page: Page) -> Response:
    type_ = code_named(AclResourceType, page.field("type"), "resource type")
    operation = code_named(AclOperation, page.field("operation"), "operation")
    check_operation(operation, type_)
    host = page.field("host").strip() or ANY_HOST
    check_host(host)
    pattern = ResourcePattern(
        type_,
        name_for(type_, page.field("name")),
        PatternType.LITERAL
        if type_ is AclResourceType.CLUSTER
        else code_named(PatternType, page.field("pattern"), "pattern"),
    )
    acl = Acl(
        pattern,
        principal_of(page.field("principal")),
        host,
        operation,
        code_named(AclPermission, page.field("permission"), "permission"),
    )
    refused = (await create_acls(page.client, [acl], timeout_s=page.timeout_s))[acl]
    page.done(refused, "The ACL was not created", f"Created: {rule_of(acl)}.")
    return page.redirect("/acls")


async def delete(page: Page) -> Response:
    acl = Acl(
        ResourcePattern(
            code_named(AclResourceType, page.field("type"), "resource type"),
            page.field("name"),
            code_named(PatternType, page.field("pattern"), "pattern"),
        ),
        page.field("principal"),
        page.field("host"),
        code_named(AclOperation, page.field("operation"), "operation"),
        code_named(AclPermission, page.field("permission"), "permission"),
    )
    page.require_name(acl.principal)
    refused = (await delete_acls(page.client, [acl], timeout_s=page.timeout_s))[acl]
    page.done(refused, "The ACL was not deleted", f"Deleted: {rule_of(acl)}.")
    return page.redirect("/acls")


# --- fields --------------------------------------------------------------------------------------


def code_named(kind: type[CodeT], word: str, what: str) -> CodeT:
    """The code with this word; UNKNOWN, ANY and MATCH are for filters only."""
    for each in kind:
        if word_of(each) == word and each.name not in ("UNKNOWN", "ANY", "MATCH"):
            return each
    raise _bad(f"{word[:40]!r} is no {what}")


def check_operation(operation: AclOperation, type_: AclResourceType) -> None:
    if operation is not AclOperation.ALL and operation not in SUPPORTED_OPERATIONS[type_]:
        words = ", ".join(word_of(each) for each in sorted(SUPPORTED_OPERATIONS[type_]))
        raise _bad(f"{word_of(type_)} has no operation {word_of(operation)}; it has {words}, all")


def check_host(host: str) -> None:
    if host == ANY_HOST:
        return
    try:
        ip_address(host)
    except ValueError:
        raise _bad(
            f"{host[:60]!r} is no IP address: brokers compare addresses and resolve no names"
        ) from None


def principal_of(text: str) -> str:
    try:
        return str(parse_principal(text.strip()))
    except InvalidPrincipal as error:
        raise _bad(str(error)) from None


def name_for(type_: AclResourceType, text: str) -> str:
    if type_ is AclResourceType.CLUSTER:
        return CLUSTER_NAME
    if not text.strip():
        raise _bad("The resource needs a name; * stands for all")
    return text.strip()


def _bad(detail: str) -> PageError:
    return PageError(400, "The form is incomplete", f"{detail}. Nothing was changed.")


SCREEN: Final = Screen(
    "acls",
    (
        get("/acls", show_list),
        post("/acls/actions/create", create),
        post("/acls/actions/delete", delete),
    ),
)
