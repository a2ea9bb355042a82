"""The alert rules for Prometheus. Each links to its section in docs/guide/alerts.md. Pure.

`by (cluster)` keeps clusters apart if the scrape settings add a label `cluster`; without that
label, all brokers count as one cluster.
"""

from typing import Final, NamedTuple

CRITICAL: Final = "critical"
"""Some clients fail, or data is at risk: act now."""
WARNING: Final = "warning"
"""Something has failed or will fail: act today."""
INFO: Final = "info"
JOB: Final = "JOB"
"""In expressions: stands for the name of the scrape job."""


class Alert(NamedTuple):
    """One rule. `summary` and `description` are templates of Prometheus."""

    name: str
    expression: str
    minutes: int
    """How long the expression must hold."""
    severity: str
    summary: str
    description: str


CLUSTER: Final = (
    Alert(
        "HeadraceBrokerDown",
        'up{job="JOB"} == 0',
        1,
        CRITICAL,
        "Broker {{ $labels.instance }} does not answer scrapes",
        "The HTTP port of the broker has not answered for a minute: the process is down, paused or "
        "cut off from the network.",
    ),
    Alert(
        "HeadraceBrokerFenced",
        "sum by (cluster) (kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        2,
        WARNING,
        "{{ $value }} registered brokers are fenced",
        "A registered broker has lost its session with ZooKeeper or has not caught up with the "
        "metadata. It leads no partition.",
    ),
    Alert(
        "HeadraceNoController",
        "sum by (cluster) (kafka_controller_kafkacontroller_activecontrollercount) != 1",
        1,
        CRITICAL,
        "{{ $value }} brokers are the active controller instead of 1",
        "Without a controller no leader is elected, and topics and settings cannot change. "
        "ZooKeeper is probably unreachable.",
    ),
    Alert(
        "HeadraceOfflinePartitions",
        "sum by (cluster) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions have no leader",
        "Clients can neither read nor write these partitions: no in-sync replica is live.",
    ),
    Alert(
        "HeadracePartitionsUnderMinIsr",
        "sum by (cluster) (kafka_server_replicamanager_underminisrpartitioncount) > 0",
        1,
        CRITICAL,
        "{{ $value }} partitions refuse writes with acks=all",
        "Fewer replicas than min.insync.replicas are in sync. Producers with acks=all get "
        "NOT_ENOUGH_REPLICAS.",
    ),
    Alert(
        "HeadraceUnderReplicatedPartitions",
        "sum by (cluster) (kafka_server_replicamanager_underreplicatedpartitions) > 0",
        5,
        WARNING,
        "{{ $value }} partitions are under-replicated",
        "Replicas have been out of sync for five minutes: a broker is down, slow, or its disk is "
        "full or has failed.",
    ),
    Alert(
        "HeadraceIsrUnstable",
        "rate(kafka_server_replicamanager_isrshrinks_total[10m]) * 600 > 20",
        10,
        WARNING,
        "Replicas leave and join the in-sync sets of broker {{ $labels.instance }} again and again",
        "{{ $value }} replicas left an in-sync set in ten minutes. Followers cannot keep up: the "
        "disk, the network or the processor of a broker is overloaded.",
    ),
    Alert(
        "HeadraceLeadersUnbalanced",
        "sum by (cluster) (kafka_controller_kafkacontroller_preferredreplicaimbalancecount) > 0",
        60,
        INFO,
        "{{ $value }} partitions are not led by their preferred replica",
        "The load is not spread as the assignment of the partitions intends.",
    ),
)

DISKS: Final = (
    Alert(
        "HeadraceLogDirectoryOffline",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        0,
        CRITICAL,
        "{{ $value }} log directories of broker {{ $labels.instance }} are offline",
        "The disk has failed. Its replicas are offline until the broker restarts with a working "
        "directory.",
    ),
    Alert(
        "HeadraceDiskFull",
        "headrace_log_directory_full_logs > 0",
        0,
        CRITICAL,
        "The disk of {{ $labels.path }} on broker {{ $labels.instance }} is full",
        "Appends to {{ $value }} logs have failed for lack of space. Leaders refuse writes, and "
        "followers fall out of sync.",
    ),
    Alert(
        "HeadraceDiskAlmostFull",
        "headrace_log_directory_free_bytes / headrace_log_directory_capacity_bytes < 0.1",
        5,
        WARNING,
        "{{ $value | humanizePercentage }} of the disk of {{ $labels.path }} on broker "
        "{{ $labels.instance }} is free",
        "When the disk is full, the broker refuses writes.",
    ),
    Alert(
        "HeadraceDiskFullSoon",
        "predict_linear(headrace_log_directory_free_bytes[6h], 24 * 3600) < 0 "
        "and headrace_log_directory_free_bytes / headrace_log_directory_capacity_bytes < 0.5",
        60,
        WARNING,
        "The disk of {{ $labels.path }} on broker {{ $labels.instance }} will be full in a day",
        "At the rate of the last six hours, no space is left in 24 hours.",
    ),
)

GROUPS: Final = (
    Alert(
        "HeadraceConsumerLag",
        "kafka_consumergroup_group_max_lag_seconds > 300",
        10,
        WARNING,
        "Group {{ $labels.group }} is {{ $value | humanizeDuration }} behind",
        "The oldest record that the group has not committed is more than five minutes old, and has "
        "been for ten minutes.",
    ),
    Alert(
        "HeadraceConsumerGroupStopped",
        "sum by (cluster, consumergroup) (kafka_consumergroup_lag_sum) > 0 "
        "and sum by (cluster, consumergroup) (kafka_consumergroup_members) == 0",
        15,
        WARNING,
        "Group {{ $labels.consumergroup }} has no members and {{ $value }} records to read",
        "All consumers of the group have stopped, and records wait for them.",
    ),
    Alert(
        "HeadraceShareGroupLag",
        "headrace_sharegroup_max_lag_seconds > 300",
        10,
        WARNING,
        "Share group {{ $labels.sharegroup }} is {{ $value | humanizeDuration }} behind",
        "The oldest record that the share group has not finished is more than five minutes old.",
    ),
    Alert(
        "HeadraceOpenTransaction",
        "headrace_partition_open_transaction_seconds > 900",
        5,
        WARNING,
        "A transaction in {{ $labels.topic }}-{{ $labels.partition }} has been open for "
        "{{ $value | humanizeDuration }}",
        "Consumers with read_committed wait for its end. Producer id: {{ $labels.producer_id }}.",
    ),
)

REQUESTS: Final = (
    Alert(
        "HeadraceSlowProduce",
        'kafka_network_requestmetrics_totaltimems{request="Produce", quantile="0.99"} > 1000',
        10,
        WARNING,
        "1 % of Produce requests to broker {{ $labels.instance }} take more than {{ $value }} ms",
        "A follower, the disk or the processor of the broker is too slow.",
    ),
    Alert(
        "HeadraceEventLoopLag",
        'headrace_loop_lag_seconds{quantile="0.99"} > 0.25',
        10,
        WARNING,
        "The event loop of broker {{ $labels.instance }} is {{ $value | humanizeDuration }} late",
        "The broker's processor is overloaded, or something blocks the loop. All requests wait.",
    ),
    Alert(
        "HeadraceFailedLogins",
        "sum by (cluster, instance) "
        "(rate(kafka_server_socket_server_metrics_failed_authentication_total[5m])) > 1",
        10,
        WARNING,
        "{{ $value | humanize }} logins per second fail at broker {{ $labels.instance }}",
        "A client has wrong credentials, or somebody guesses passwords.",
    ),
    Alert(
        "HeadraceRefusedConnections",
        "increase(headrace_refused_connections_total[10m]) > 0",
        0,
        WARNING,
        "Broker {{ $labels.instance }} has refused {{ $value | humanize }} connections",
        "The limits max.connections or max.connections.per.ip are reached.",
    ),
    Alert(
        "HeadraceFileDescriptors",
        'process_open_fds{job="JOB"} / process_max_fds{job="JOB"} > 0.85',
        10,
        WARNING,
        "Broker {{ $labels.instance }} uses {{ $value | humanizePercentage }} of its file "
        "descriptors",
        "Without free descriptors the broker can open neither connections nor files.",
    ),
    Alert(
        "HeadraceIncompleteScrape",
        "increase(headrace_scrape_errors_total[15m]) > 0",
        0,
        INFO,
        "Some metrics of broker {{ $labels.instance }} are missing",
        "A collector has failed; the broker's log has the error.",
    ),
)

PIPELINES: Final = (
    Alert(
        "HeadracePipelineFailed",
        "increase(headrace_pipeline_failures_total[10m]) > 0",
        0,
        CRITICAL,
        "Flow {{ $labels.flow }} has failed",
        "The flow could not go on, and lands no records until it is started again.",
    ),
    Alert(
        "HeadracePipelineStalled",
        "sum by (cluster, flow) (headrace_pipeline_lag) > 0 and max by (cluster, flow) "
        "(time() - headrace_pipeline_last_commit_timestamp_seconds) > 900",
        5,
        WARNING,
        "Flow {{ $labels.flow }} has committed nothing for 15 minutes; {{ $value }} records wait",
        "The flow runs but makes no progress.",
    ),
    Alert(
        "HeadraceDeadLetters",
        "sum by (cluster, flow) (increase(headrace_pipeline_dead_letters_total[1h])) > 0",
        0,
        INFO,
        "{{ $value | humanize }} records of flow {{ $labels.flow }} became dead letters",
        "The records could not be processed. They are in the dead-letter topic.",
    ),
)

GROUPS_OF_ALERTS: Final = {
    "headrace-cluster": CLUSTER,
    "headrace-disks": DISKS,
    "headrace-groups": GROUPS,
    "headrace-requests": REQUESTS,
    "headrace-pipelines": PIPELINES,
}


def all_alerts() -> tuple[Alert, ...]:
    return tuple(alert for alerts in GROUPS_OF_ALERTS.values() for alert in alerts)
