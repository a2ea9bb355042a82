"""The dashboards for Grafana: complete panels in a grid without overlaps."""

from itertools import combinations

import pytest

from headrace.cli.generate.dashboard import COLUMNS, Dashboard
from headrace.cli.generate.dashboards import DASHBOARDS

every_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


@every_dashboard
def test_panels_do_not_overlap_and_fit_into_the_grid(dashboard: Dashboard) -> None:
    panels = dashboard.to_json()["panels"]
    assert isinstance(panels, list)
    places = [panel["gridPos"] for panel in panels]
    for place in places:
        assert place["x"] >= 0 and place["x"] + place["w"] <= COLUMNS
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)
    assert len({panel["id"] for panel in panels}) == len(panels)


@every_dashboard
def test_every_panel_has_a_title_and_expressions_of_the_chosen_data_source(
    dashboard: Dashboard,
) -> None:
    made = dashboard.to_json()
    assert made["uid"] == f"headrace-{dashboard.name}"
    for panel in made["panels"]:  # type: ignore[attr-defined]
        assert panel["title"]
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            assert target["expr"].count("(") == target["expr"].count(")")
            assert target["expr"].count("{") == target["expr"].count("}")
