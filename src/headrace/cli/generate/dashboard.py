"""A dashboard and its panels, as Grafana imports them. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

SCHEMA_VERSION: Final = 39
"""Of Grafana 11; newer versions migrate it."""
COLUMNS: Final = 24
TAGS: Final = ["headrace", "kafka"]
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


class Query(NamedTuple):
    """One expression and the name of its lines."""

    expression: str
    legend: str = "{{instance}}"


class Panel(NamedTuple):
    """One panel, in columns of which a row has 24."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    bad_above: float | None = None
    """A number above this one is red."""
    description: str = ""


class Row(NamedTuple):
    """A heading over panels."""

    title: str


class Variable(NamedTuple):
    """A choice at the top: the values of a label."""

    name: str
    query: str
    label: str


class Dashboard(NamedTuple):
    """One dashboard."""

    name: str
    title: str
    parts: tuple[Panel | Row, ...]
    variables: tuple[Variable, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "uid": f"headrace-{self.name}",
            "title": self.title,
            "tags": TAGS,
            "schemaVersion": SCHEMA_VERSION,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [_source_variable(), *map(_variable, self.variables)]},
            "links": [
                {
                    "title": "Headrace",
                    "type": "dashboards",
                    "tags": TAGS[:1],
                    "asDropdown": True,
                    "includeVars": True,
                    "keepTime": True,
                }
            ],
            "panels": list(_placed(self.parts)),
        }


def _placed(parts: Sequence[Panel | Row]) -> Iterator[dict[str, object]]:
    """The panels from left to right and from top to bottom."""
    x = y = line_height = 0
    for number, part in enumerate(parts, start=1):
        width, height = (COLUMNS, 1) if isinstance(part, Row) else (part.width, part.height)
        if x + width > COLUMNS:
            x, y, line_height = 0, y + line_height, 0
        place = {"x": x, "y": y, "w": width, "h": height}
        x, line_height = x + width, max(line_height, height)
        if isinstance(part, Row):
            yield {"id": number, "type": "row", "title": part.title, "gridPos": place, "panels": []}
        else:
            yield _panel(part, number, place)


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, object]:
    steps: list[dict[str, object]] = [{"color": "green", "value": None}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    is_number = panel.kind == "stat"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {} if is_number else {"fillOpacity": 10, "showPoints": "never"},
            },
            "overrides": [],
        },
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value"}
        if is_number
        else {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def _source_variable() -> dict[str, object]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(variable: Variable) -> dict[str, object]:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": variable.query, "refId": variable.name},
        "definition": variable.query,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 1,
    }
