"""The rule files and the scrape settings as Prometheus reads them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.cli.generate.alerts import GROUPS_OF_ALERTS, JOB, Alert

RATE: Final = "5m"
RECORDED: Final = {
    "headrace:records_in:rate5m": "sum by (cluster, topic) "
    '(rate(kafka_server_brokertopicmetrics_messagesin_total{topic!=""}[5m]))',
    "headrace:bytes_in:rate5m": "sum by (cluster, topic) "
    '(rate(kafka_server_brokertopicmetrics_bytesin_total{topic!=""}[5m]))',
    "headrace:bytes_out:rate5m": "sum by (cluster, topic) "
    '(rate(kafka_server_brokertopicmetrics_bytesout_total{topic!=""}[5m]))',
    "headrace:group_lag:sum": "sum by (cluster, consumergroup) (kafka_consumergroup_lag_sum)",
    "headrace:requests:rate5m": "sum by (cluster, request) "
    "(rate(kafka_network_requestmetrics_requests_total[5m]))",
    "headrace:api_cpu:rate5m": "sum by (cluster, instance, request) "
    "(rate(headrace_api_cpu_seconds_total[5m]))",
    "headrace:disk_free:ratio": "headrace_log_directory_free_bytes / "
    "headrace_log_directory_capacity_bytes",
}
"""Series that the dashboards use over long times."""


def alert_rules(*, job: str, runbooks: str) -> dict[str, object]:
    """`runbooks` is the address of the page with a section for each alert."""
    return {
        "groups": [
            {"name": name, "rules": [_rule(alert, job, runbooks) for alert in alerts]}
            for name, alerts in GROUPS_OF_ALERTS.items()
        ]
    }


def _rule(alert: Alert, job: str, runbooks: str) -> Mapping[str, object]:
    held = {"for": f"{alert.minutes}m"} if alert.minutes else {}
    return {
        "alert": alert.name,
        "expr": alert.expression.replace(f'"{JOB}"', f'"{job}"'),
        **held,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{runbooks}#{alert.name.lower()}",
        },
    }


def recording_rules() -> dict[str, object]:
    rules = [{"record": name, "expr": expression} for name, expression in RECORDED.items()]
    return {"groups": [{"name": "headrace-recording", "interval": "30s", "rules": rules}]}


def scrape_settings(*, job: str, targets: Sequence[str]) -> dict[str, object]:
    """A prometheus.yml that scrapes the brokers and loads the rules beside it."""
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": ["headrace-alerts.yml", "headrace-recording.yml"],
        "scrape_configs": [
            {
                "job_name": job,
                "metrics_path": "/metrics",
                "static_configs": [{"targets": list(targets), "labels": {"cluster": "main"}}],
            }
        ],
    }
