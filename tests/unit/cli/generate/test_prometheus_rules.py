"""The rules for Prometheus: promtool accepts them, each alert fires when it should, and links."""

from pathlib import Path

import pytest
import yaml

from headrace.cli.generate.alerts import CRITICAL, INFO, WARNING, all_alerts
from headrace.cli.generate.prometheus_rules import alert_rules, recording_rules, scrape_settings
from headrace.cli.yaml_text import to_yaml
from support.prometheus.promtool import needs_promtool, promtool

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "alerts.md"
LONG = "x400"
"""A value for 400 minutes more."""

CONTROLLER = "kafka_controller_kafkacontroller_"
REPLICAS = "kafka_server_replicamanager_"
TIMES = 'kafka_network_requestmetrics_totaltimems{request="Produce", quantile="0.99"}'
LAG = 'kafka_consumergroup_lag_sum{consumergroup="g", topic="t"}'
MEMBERS = 'kafka_consumergroup_members{consumergroup="g"}'
LOGINS = "kafka_server_socket_server_metrics_failed_authentication_total"
FREE, SIZE = "headrace_log_directory_free_bytes", "headrace_log_directory_capacity_bytes"
OPEN, LIMIT = 'process_open_fds{job="headrace"}', 'process_max_fds{job="headrace"}'
COMMIT = "headrace_pipeline_last_commit_timestamp_seconds"

HEALTHY = {
    'up{job="headrace"}': f"1{LONG}",
    f"{CONTROLLER}fencedbrokercount": f"0{LONG}",
    f"{CONTROLLER}activecontrollercount": f"1{LONG}",
    f"{CONTROLLER}offlinepartitionscount": f"0{LONG}",
    f"{CONTROLLER}preferredreplicaimbalancecount": f"0{LONG}",
    f"{REPLICAS}underminisrpartitioncount": f"0{LONG}",
    f"{REPLICAS}underreplicatedpartitions": f"0{LONG}",
    f"{REPLICAS}isrshrinks_total": f"5{LONG}",
    "kafka_log_logmanager_offlinelogdirectorycount": f"0{LONG}",
    "headrace_log_directory_full_logs": f"0{LONG}",
    FREE: f"60{LONG}",
    SIZE: f"100{LONG}",
    'kafka_consumergroup_group_max_lag_seconds{group="g"}': f"3{LONG}",
    LAG: f"10{LONG}",
    MEMBERS: f"1{LONG}",
    "headrace_sharegroup_max_lag_seconds": f"3{LONG}",
    "headrace_partition_open_transaction_seconds": f"10{LONG}",
    TIMES: f"8{LONG}",
    'headrace_loop_lag_seconds{quantile="0.99"}': f"0.01{LONG}",
    LOGINS: f"4{LONG}",
    "headrace_refused_connections_total": f"4{LONG}",
    OPEN: f"100{LONG}",
    LIMIT: f"1000{LONG}",
    "headrace_scrape_errors_total": f"0{LONG}",
    "headrace_pipeline_failures_total": f"0{LONG}",
    'headrace_pipeline_lag{flow="f"}': f"5{LONG}",
    f'{COMMIT}{{flow="f"}}': "0+60x400",
    "headrace_pipeline_dead_letters_total": f"2{LONG}",
}
FIRES = {
    "HeadraceBrokerDown": {'up{job="headrace"}': f"0{LONG}"},
    "HeadraceBrokerFenced": {f"{CONTROLLER}fencedbrokercount": f"1{LONG}"},
    "HeadraceNoController": {f"{CONTROLLER}activecontrollercount": f"0{LONG}"},
    "HeadraceOfflinePartitions": {f"{CONTROLLER}offlinepartitionscount": f"3{LONG}"},
    "HeadracePartitionsUnderMinIsr": {f"{REPLICAS}underminisrpartitioncount": f"2{LONG}"},
    "HeadraceUnderReplicatedPartitions": {f"{REPLICAS}underreplicatedpartitions": f"2{LONG}"},
    "HeadraceIsrUnstable": {f"{REPLICAS}isrshrinks_total": "0+5x400"},
    "HeadraceLeadersUnbalanced": {f"{CONTROLLER}preferredreplicaimbalancecount": f"4{LONG}"},
    "HeadraceLogDirectoryOffline": {"kafka_log_logmanager_offlinelogdirectorycount": f"1{LONG}"},
    "HeadraceDiskFull": {"headrace_log_directory_full_logs": f"1{LONG}"},
    "HeadraceDiskAlmostFull": {FREE: f"9{LONG}"},
    "HeadraceDiskFullSoon": {FREE: "100-0.15x400"},
    "HeadraceConsumerLag": {'kafka_consumergroup_group_max_lag_seconds{group="g"}': f"400{LONG}"},
    "HeadraceConsumerGroupStopped": {MEMBERS: f"0{LONG}"},
    "HeadraceShareGroupLag": {"headrace_sharegroup_max_lag_seconds": f"301{LONG}"},
    "HeadraceOpenTransaction": {"headrace_partition_open_transaction_seconds": f"901{LONG}"},
    "HeadraceSlowProduce": {TIMES: f"1500{LONG}"},
    "HeadraceEventLoopLag": {'headrace_loop_lag_seconds{quantile="0.99"}': f"0.4{LONG}"},
    "HeadraceFailedLogins": {LOGINS: "0+120x400"},
    "HeadraceRefusedConnections": {"headrace_refused_connections_total": "0+1x400"},
    "HeadraceFileDescriptors": {OPEN: f"900{LONG}"},
    "HeadraceIncompleteScrape": {"headrace_scrape_errors_total": "0+1x400"},
    "HeadracePipelineFailed": {"headrace_pipeline_failures_total": "0+1x400"},
    "HeadracePipelineStalled": {f'{COMMIT}{{flow="f"}}': f"0{LONG}"},
    "HeadraceDeadLetters": {"headrace_pipeline_dead_letters_total": "0+1x400"},
}
"""For each alert, the series that differ from a healthy cluster."""


def write_rules(folder: Path) -> list[str]:
    files = {
        "headrace-alerts.yml": alert_rules(job="headrace", runbooks="https://docs/alerts/"),
        "headrace-recording.yml": recording_rules(),
    }
    for name, rules in files.items():
        (folder / name).write_text(to_yaml(rules))
    return [str(folder / name) for name in files]


@needs_promtool
def test_promtool_accepts_the_rules_and_the_scrape_settings(tmp_path: Path) -> None:
    said = promtool(["check", "rules", *write_rules(tmp_path)])
    assert f"SUCCESS: {len(all_alerts())} rules found" in said
    scrape = tmp_path / "prometheus.yml"
    scrape.write_text(to_yaml(scrape_settings(job="headrace", targets=["b1:9644", "b2:9644"])))
    assert "SUCCESS" in promtool(["check", "config", str(scrape)])


@needs_promtool
def test_each_alert_fires_alone_and_none_on_a_healthy_cluster(tmp_path: Path) -> None:
    assert FIRES.keys() == {alert.name for alert in all_alerts()}
    cases: list[dict[str, object]] = [_case({}, None)]
    cases += [_case(series, name) for name, series in FIRES.items()]
    test = {"rule_files": ["headrace-alerts.yml"], "evaluation_interval": "1m", "tests": cases}
    write_rules(tmp_path)
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    promtool(["test", "rules", str(tmp_path / "test.yml")])


def _case(changed: dict[str, str], alert: str | None) -> dict[str, object]:
    """After 400 minutes this alert fires, and no other."""
    fires = [] if alert is None else [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
    return {
        "name": alert or "healthy",
        "interval": "1m",
        "input_series": [
            {"series": series, "values": values} for series, values in (HEALTHY | changed).items()
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "400m",
                "exp_samples": fires,
            }
        ],
    }


@pytest.mark.parametrize("alert", all_alerts(), ids=lambda alert: alert.name)
def test_each_alert_is_explained_and_links_to_its_section(alert: object) -> None:
    rules = yaml.safe_load(to_yaml(alert_rules(job="headrace", runbooks="https://docs/alerts/")))
    (rule,) = [
        rule
        for group in rules["groups"]
        for rule in group["rules"]
        if rule["alert"] == alert.name  # type: ignore[attr-defined]
    ]
    name = rule["alert"]
    assert rule["labels"]["severity"] in (CRITICAL, WARNING, INFO)
    assert rule["annotations"]["summary"] and rule["annotations"]["description"]
    assert rule["annotations"]["runbook_url"] == f"https://docs/alerts/#{name.lower()}"
    _, _, section = GUIDE.read_text().partition(f"\n### {name}\n")
    section = section.partition("\n##")[0]
    for part in ("Meaning", "Confirm", "Act"):
        assert f"**{part}.**" in section, f"{name}: {part}"


def test_the_job_of_the_command_line_is_in_the_expressions() -> None:
    text = to_yaml(alert_rules(job="kafka", runbooks=""))
    assert 'job=\\"kafka\\"' in text
    assert "JOB" not in text
