"""Options that the commands of `headrace quota` share."""

from typing import Annotated, Final

import typer

ENTITY_PANEL: Final = "Whose quota"
LIMIT_PANEL: Final = "Limits, for each broker"

User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        help="User, for example alice for the principal User:alice.",
        show_default=False,
        rich_help_panel=ENTITY_PANEL,
    ),
]
UserDefault = Annotated[
    bool,
    typer.Option(
        "--user-default",
        help="Every user without an own quota.",
        rich_help_panel=ENTITY_PANEL,
    ),
]
ClientId = Annotated[
    str | None,
    typer.Option(
        "--client-id",
        metavar="ID",
        help="Client id (client.id).",
        show_default=False,
        rich_help_panel=ENTITY_PANEL,
    ),
]
ClientDefault = Annotated[
    bool,
    typer.Option(
        "--client-default",
        help="Every client id without an own quota.",
        rich_help_panel=ENTITY_PANEL,
    ),
]
Ip = Annotated[
    str | None,
    typer.Option(
        "--ip",
        metavar="ADDRESS",
        help="IP address of clients.",
        show_default=False,
        rich_help_panel=ENTITY_PANEL,
    ),
]
IpDefault = Annotated[
    bool,
    typer.Option(
        "--ip-default",
        help="Every address without an own quota.",
        rich_help_panel=ENTITY_PANEL,
    ),
]
ProducerByteRate = Annotated[
    str | None,
    typer.Option(
        "--producer-byte-rate",
        metavar="BYTES",
        help="Bytes per second of Produce requests, such as 1MB or 512KiB.",
        show_default=False,
        rich_help_panel=LIMIT_PANEL,
    ),
]
ConsumerByteRate = Annotated[
    str | None,
    typer.Option(
        "--consumer-byte-rate",
        metavar="BYTES",
        help="Bytes per second of fetched records.",
        show_default=False,
        rich_help_panel=LIMIT_PANEL,
    ),
]
RequestPercentage = Annotated[
    float | None,
    typer.Option(
        "--request-percentage",
        metavar="PERCENT",
        help="Share of the broker's time for requests; 100 is all of it.",
        show_default=False,
        rich_help_panel=LIMIT_PANEL,
    ),
]
ControllerMutationRate = Annotated[
    float | None,
    typer.Option(
        "--controller-mutation-rate",
        metavar="NUMBER",
        help="Partitions created and deleted per second, in the whole cluster.",
        show_default=False,
        rich_help_panel=LIMIT_PANEL,
    ),
]
ConnectionCreationRate = Annotated[
    int | None,
    typer.Option(
        "--connection-creation-rate",
        metavar="NUMBER",
        help="New connections per second; for addresses.",
        show_default=False,
        rich_help_panel=LIMIT_PANEL,
    ),
]
