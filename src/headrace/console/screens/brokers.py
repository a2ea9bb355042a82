"""Brokers: state, controller, racks, disks, listeners, settings with their sources; elections."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from headrace.client.admin.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigSource,
    Operation,
    Resource,
    ResourceKind,
    alter_configs,
    describe_configs,
)
from headrace.client.admin.elections import ElectionType, elect_leaders
from headrace.client.errors import AuthenticationFailed, ClientError
from headrace.client.results import Refusal
from headrace.console.cluster.snapshot import BrokerState, ClusterSnapshot
from headrace.console.cluster.verdict import FULL_CRITICAL, FULL_WARNING, used_share
from headrace.console.screens.settings_form import source_name
from headrace.console.web.errors import PageError
from headrace.console.web.page import Page
from headrace.console.web.screen import Screen, get, post
from headrace.protocol.errors import ErrorCode

CONFIG_CACHE_S: Final = 5.0
TABS: Final = ("disks", "settings")
DYNAMIC: Final = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
CLUSTER_WIDE: Final = ""
"""The name of the resource with the default of all brokers."""
LISTENER_SETTINGS: Final = (
    "listeners",
    "advertised.listeners",
    "inter.broker.listener.name",
    "headrace.http.listener",
    "broker.rack",
    "log.dirs",
)


class BrokerRow(NamedTuple):
    """One broker with what its partitions say of it."""

    broker: BrokerState
    is_controller: bool
    out_of_sync: int
    """The replicas that are not in sync."""
    not_preferred: int
    """The partitions that it should lead and does not."""
    free_share: float | None

    @property
    def level(self) -> str:
        if self.broker.fenced or self.broker.problem is not None:
            return "critical"
        return "warning" if self.out_of_sync else "ok"

    @property
    def state(self) -> str:
        if self.broker.fenced:
            return "Fenced"
        if self.broker.problem is not None:
            return "Does not answer"
        return "Replicas out of sync" if self.out_of_sync else "In sync"


def rows_of(snapshot: ClusterSnapshot) -> list[BrokerRow]:
    """All brokers, by id. Pure."""
    out_of_sync: dict[int, int] = {}
    displaced: dict[int, int] = {}
    for topic in snapshot.topics.values():
        for partition in topic.partitions:
            for replica in partition.replicas:
                if replica not in partition.isr:
                    out_of_sync[replica] = out_of_sync.get(replica, 0) + 1
            preferred = partition.replicas[0] if partition.replicas else -1
            if partition.leader not in (preferred, -1):
                displaced[preferred] = displaced.get(preferred, 0) + 1
    return [
        BrokerRow(
            broker,
            broker.id == snapshot.controller_id,
            out_of_sync.get(broker.id, 0),
            displaced.get(broker.id, 0),
            _free_share(broker),
        )
        for broker in snapshot.brokers
    ]


def _free_share(broker: BrokerState) -> float | None:
    """The free part of its fullest volume."""
    used = [share for each in broker.log_dirs if (share := used_share(each)) is not None]
    return 1 - max(used) if used else None


def disk_level(share: float | None) -> str:
    """The level of a volume of which this share is used."""
    if share is None:
        return ""
    if share >= FULL_CRITICAL:
        return "critical"
    return "warning" if share >= FULL_WARNING else "ok"


async def show_list(page: Page) -> Response:
    snapshot = await page.snapshot()
    rows = rows_of(snapshot)
    return page.render(
        "brokers.html",
        snapshot=snapshot,
        rows=rows,
        racks=sorted({row.broker.rack for row in rows if row.broker.rack}),
        not_preferred=sum(row.not_preferred for row in rows),
        disk_level=disk_level,
        used_share=used_share,
    )


async def show(page: Page) -> Response:
    snapshot = await page.snapshot()
    text = page.path("broker")
    broker = snapshot.broker(int(text)) if text.isdecimal() and len(text) < 11 else None
    if broker is None:
        raise PageError(404, "No such broker", f"The cluster knows no broker {text!r}.")
    row = next(each for each in rows_of(snapshot) if each.broker.id == broker.id)
    tab = page.query("tab")
    entries, problem = await _settings(page, broker)
    by_name = {each.name: each for each in entries}
    search, only_changed = page.query("q").lower(), not page.flag("all")
    shown = [
        each
        for each in entries
        if search in each.name.lower() and (search or not only_changed or not each.is_default)
    ]
    return page.render(
        "broker.html",
        row=row,
        broker=broker,
        tab=tab if tab in TABS else TABS[0],
        entries=shown,
        total=len(entries),
        facts=[by_name[name] for name in LISTENER_SETTINGS if name in by_name],
        problem=problem,
        search=page.query("q"),
        show_all=page.flag("all"),
        dynamic=DYNAMIC,
        source_name=source_name,
        disk_level=disk_level,
        used_share=used_share,
    )


async def _settings(page: Page, broker: BrokerState) -> tuple[Sequence[ConfigEntry], str | None]:
    """The broker's settings; or none, and why."""
    if broker.fenced:
        return (), "The broker is fenced, so its settings cannot be asked for."
    if broker.problem is not None:
        return (), broker.problem
    resource = Resource(ResourceKind.BROKER, str(broker.id))

    async def load() -> dict[Resource, list[ConfigEntry] | Refusal]:
        return await describe_configs(
            page.client, [resource], timeout_s=page.timeout_s, explain=True
        )

    key = ("broker-configs", broker.id)
    try:
        found = (await page.cluster.cached(key, CONFIG_CACHE_S, load))[resource]
    except AuthenticationFailed:
        raise
    except ClientError as error:  # the rest of the page needs no answer of the broker
        return (), str(error)
    return ((), str(found)) if isinstance(found, Refusal) else (found, None)


async def set_config(page: Page) -> Response:
    """Sets or resets one dynamic setting, of one broker or of all."""
    broker, name, value = page.field("broker"), page.field("name").strip(), page.field("value")
    if not name or not broker.isdecimal():
        raise PageError(400, "The form is incomplete", "A setting needs a name.")
    resets = page.field("action") == "reset"
    target = CLUSTER_WIDE if page.field("scope") == "all" else broker
    change = ConfigChange(
        name, Operation.DELETE if resets else Operation.SET, None if resets else value
    )
    resource = Resource(ResourceKind.BROKER, target)
    done = await alter_configs(page.client, {resource: [change]}, timeout_s=page.timeout_s)
    where = "all brokers" if target == CLUSTER_WIDE else f"broker {broker}"
    page.done(
        done[resource],
        f"{name} was not changed",
        f"{'Reset' if resets else 'Set'} {name} of {where}.",
    )
    return page.redirect(f"/brokers/{broker}", tab="settings")


async def elect(page: Page) -> Response:
    """Makes the preferred replicas lead again, where they are in sync."""
    done = await elect_leaders(page.client, ElectionType.PREFERRED, None, timeout_s=page.timeout_s)
    failed = {
        each: why
        for each, why in done.items()
        if why is not None and why.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    moved = sum(why is None for why in done.values())
    page.cluster.forget_cached()
    page.flash(
        f"Elected the preferred leader of {moved} partition{'s' * (moved != 1)}."
        if moved or failed
        else "Every partition is already led by its preferred leader."
    )
    for each, why in list(failed.items())[:3]:
        page.flash(f"{each}: {why}", "error")
    await page.refreshed()
    return page.redirect("/brokers")


SCREEN: Final = Screen(
    "brokers",
    (
        get("/brokers", show_list),
        post("/brokers/actions/elect", elect),
        post("/brokers/actions/config", set_config),
        get("/brokers/{broker}", show),
    ),
)
