"""The dashboards: overview, topics, groups, brokers, pipelines. Pure.

The label `topic` of a total is empty. Series of the whole cluster come from one broker each, so a
sum over brokers is right.
"""

from typing import Final

from headrace.cli.generate.dashboard import Dashboard, Panel, Query, Row, Variable

_BROKER: Final = Variable("instance", "label_values(headrace_build_info, instance)", "Broker")
_TOPIC: Final = Variable("topic", "label_values(kafka_topic_partitions, topic)", "Topic")
_GROUP: Final = Variable(
    "group", "label_values(kafka_consumergroup_members, consumergroup)", "Group"
)
_FLOW: Final = Variable("flow", "label_values(headrace_pipeline_last_batch, flow)", "Flow")
_HERE: Final = 'instance=~"$instance"'


def _traffic(name: str, by: str, matchers: str) -> str:
    metric = f"kafka_server_brokertopicmetrics_{name}_total"
    return f"sum by ({by}) (rate({metric}{{{matchers}}}[$__rate_interval]))"


def _number(title: str, expression: str, bad_above: float | None = None) -> Panel:
    return Panel(
        title, (Query(expression, ""),), kind="stat", width=4, height=4, bad_above=bad_above
    )


def _times(title: str, request: str) -> Panel:
    return Panel(
        title,
        tuple(
            Query(
                "max by (instance) (kafka_network_requestmetrics_totaltimems"
                f'{{request="{request}", quantile="{quantile}", {_HERE}}})',
                f"{{{{instance}}}} p{quantile[2:]}",
            )
            for quantile in ("0.5", "0.99", "0.999")
        ),
        "ms",
    )


OVERVIEW: Final = Dashboard(
    "overview",
    "Headrace: overview",
    (
        _number("Brokers", "sum(kafka_controller_kafkacontroller_activebrokercount)"),
        _number("Fenced brokers", "sum(kafka_controller_kafkacontroller_fencedbrokercount)", 1),
        _number("Controllers", "sum(kafka_controller_kafkacontroller_activecontrollercount)", 2),
        _number(
            "Partitions without leader",
            "sum(kafka_controller_kafkacontroller_offlinepartitionscount)",
            1,
        ),
        _number(
            "Partitions that refuse acks=all",
            "sum(kafka_server_replicamanager_underminisrpartitioncount)",
            1,
        ),
        _number(
            "Under-replicated partitions",
            "sum(kafka_server_replicamanager_underreplicatedpartitions)",
            1,
        ),
        _number("Topics", "sum(kafka_controller_kafkacontroller_globaltopiccount)"),
        _number("Partitions", "sum(kafka_controller_kafkacontroller_globalpartitioncount)"),
        _number("Offline log directories", "sum(kafka_log_logmanager_offlinelogdirectorycount)", 1),
        _number("Largest lag (s)", "max(kafka_consumergroup_group_max_lag_seconds)", 300),
        _number(
            "Least free disk (%)",
            "min(headrace_log_directory_free_bytes / headrace_log_directory_capacity_bytes) * 100",
        ),
        _number("Connections", "sum(kafka_server_socket_server_metrics_connection_count)"),
        Row("Traffic"),
        Panel("Records in", (Query(_traffic("messagesin", "instance", 'topic=""')),), "records/s"),
        Panel("Bytes in", (Query(_traffic("bytesin", "instance", 'topic=""')),), "Bps"),
        Panel("Bytes out", (Query(_traffic("bytesout", "instance", 'topic=""')),), "Bps"),
        Panel(
            "Failed requests",
            (
                Query(
                    _traffic("failedproducerequests", "instance", 'topic=""'),
                    "produce {{instance}}",
                ),
                Query(
                    _traffic("failedfetchrequests", "instance", 'topic=""'), "fetch {{instance}}"
                ),
            ),
            "reqps",
        ),
        Panel(
            "Replicas that left and joined in-sync sets",
            (
                Query(
                    "sum(increase(kafka_server_replicamanager_isrshrinks_total[$__rate_interval]))",
                    "left",
                ),
                Query(
                    "sum(increase(kafka_server_replicamanager_isrexpands_total[$__rate_interval]))",
                    "joined",
                ),
            ),
        ),
        Panel(
            "Partitions not led by their preferred replica",
            (
                Query(
                    "sum(kafka_controller_kafkacontroller_preferredreplicaimbalancecount)",
                    "partitions",
                ),
            ),
        ),
    ),
)

TOPICS: Final = Dashboard(
    "topics",
    "Headrace: topics",
    (
        Panel(
            "Records in by topic",
            (Query(_traffic("messagesin", "topic", 'topic=~"$topic", topic!=""'), "{{topic}}"),),
            "records/s",
            width=12,
        ),
        Panel(
            "Bytes in by topic",
            (Query(_traffic("bytesin", "topic", 'topic=~"$topic", topic!=""'), "{{topic}}"),),
            "Bps",
            width=12,
        ),
        Panel(
            "Bytes out by topic",
            (Query(_traffic("bytesout", "topic", 'topic=~"$topic", topic!=""'), "{{topic}}"),),
            "Bps",
            width=12,
        ),
        Panel(
            "Failed produce requests by topic",
            (
                Query(
                    _traffic("failedproducerequests", "topic", 'topic=~"$topic", topic!=""'),
                    "{{topic}}",
                ),
            ),
            "reqps",
            width=12,
        ),
        Row("Logs"),
        Panel(
            "Size of all replicas by topic",
            (Query('sum by (topic) (kafka_log_log_size{topic=~"$topic"})', "{{topic}}"),),
            "bytes",
        ),
        Panel(
            "Records kept by topic",
            (
                Query(
                    'sum by (topic) (kafka_topic_partition_current_offset{topic=~"$topic"}) - '
                    'sum by (topic) (kafka_topic_partition_oldest_offset{topic=~"$topic"})',
                    "{{topic}}",
                ),
            ),
        ),
        Panel(
            "Segments by topic",
            (Query('sum by (topic) (kafka_log_log_numlogsegments{topic=~"$topic"})', "{{topic}}"),),
        ),
        Row("Replicas"),
        Panel(
            "Under-replicated partitions by topic",
            (
                Query(
                    "sum by (topic) "
                    '(kafka_topic_partition_under_replicated_partition{topic=~"$topic"})',
                    "{{topic}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Records that out-of-sync followers lack",
            (
                Query(
                    'headrace_replica_lag_records{topic=~"$topic"}',
                    "{{topic}}-{{partition}} on {{replica}}",
                ),
            ),
            width=12,
        ),
    ),
    (_TOPIC,),
)

GROUPS: Final = Dashboard(
    "groups",
    "Headrace: groups and lag",
    (
        Panel(
            "Lag in seconds",
            (Query('kafka_consumergroup_group_max_lag_seconds{group=~"$group"}', "{{group}}"),),
            "s",
            width=12,
            description="Age of the oldest record that the group has not committed.",
        ),
        Panel(
            "Lag in records",
            (
                Query(
                    'sum by (consumergroup) (kafka_consumergroup_lag_sum{consumergroup=~"$group"})',
                    "{{consumergroup}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Lag in records by topic",
            (
                Query(
                    'kafka_consumergroup_lag_sum{consumergroup=~"$group"}',
                    "{{consumergroup}} {{topic}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Members",
            (Query('kafka_consumergroup_members{consumergroup=~"$group"}', "{{consumergroup}}"),),
            width=12,
        ),
        Panel(
            "Records read per second",
            (
                Query(
                    "sum by (consumergroup) (rate(kafka_consumergroup_current_offset_sum"
                    '{consumergroup=~"$group"}[$__rate_interval]))',
                    "{{consumergroup}}",
                ),
            ),
            "records/s",
            width=12,
        ),
        Panel(
            "Lag held back by open transactions",
            (
                Query(
                    "sum by (consumergroup, topic) (headrace_consumergroup_lag_held_back"
                    '{consumergroup=~"$group"})',
                    "{{consumergroup}} {{topic}}",
                ),
            ),
            width=12,
        ),
        Row("Share groups"),
        Panel(
            "Lag in seconds",
            (Query("headrace_sharegroup_max_lag_seconds", "{{sharegroup}}"),),
            "s",
            width=12,
        ),
        Panel(
            "Lag in records",
            (Query("sum by (sharegroup) (headrace_sharegroup_lag_sum)", "{{sharegroup}}"),),
            width=12,
        ),
        Row("Coordinators and transactions"),
        Panel(
            "Groups by coordinator",
            (Query("kafka_coordinator_group_groupmetadatamanager_numgroups"),),
        ),
        Panel(
            "Transactional ids by state",
            (Query("sum by (state) (kafka_coordinator_transaction_transactions)", "{{state}}"),),
        ),
        Panel(
            "Age of the oldest open transaction",
            (Query("max by (topic) (headrace_partition_open_transaction_seconds)", "{{topic}}"),),
            "s",
        ),
    ),
    (_GROUP,),
)

BROKERS: Final = Dashboard(
    "brokers",
    "Headrace: brokers, requests, disks",
    (
        _times("Produce: total time", "Produce"),
        _times("Fetch of consumers: total time", "FetchConsumer"),
        _times("Fetch of followers: total time", "FetchFollower"),
        Panel(
            "Requests by API",
            (
                Query(
                    "sum by (request) (rate(kafka_network_requestmetrics_requests_total"
                    f"{{{_HERE}}}[$__rate_interval]))",
                    "{{request}}",
                ),
            ),
            "reqps",
        ),
        Panel(
            "Errors by API and code",
            (
                Query(
                    "sum by (request, error) (rate(kafka_network_requestmetrics_errors_total"
                    f'{{error!="NONE", {_HERE}}}[$__rate_interval]))',
                    "{{request}} {{error}}",
                ),
            ),
            "reqps",
        ),
        Panel(
            "CPU time by API",
            (
                Query(
                    "sum by (request) (rate(headrace_api_cpu_seconds_total"
                    f"{{{_HERE}}}[$__rate_interval]))",
                    "{{request}}",
                ),
            ),
            "percentunit",
        ),
        Panel(
            "Requests that wait",
            (
                Query(
                    "sum by (delayedOperation) "
                    f"(kafka_server_delayedoperationpurgatory_purgatorysize{{{_HERE}}})",
                    "{{delayedOperation}}",
                ),
            ),
        ),
        Panel(
            "Throttled requests",
            (Query(f"rate(headrace_throttled_requests_total{{{_HERE}}}[$__rate_interval])"),),
            "reqps",
        ),
        Panel(
            "Event loop lag, p99",
            (Query(f'headrace_loop_lag_seconds{{quantile="0.99", {_HERE}}}'),),
            "s",
        ),
        Row("Process"),
        Panel(
            "CPU",
            (Query(f"rate(process_cpu_seconds_total{{{_HERE}}}[$__rate_interval])"),),
            "percentunit",
        ),
        Panel("Memory", (Query(f"process_resident_memory_bytes{{{_HERE}}}"),), "bytes"),
        Panel(
            "File descriptors",
            (Query(f"process_open_fds{{{_HERE}}} / process_max_fds{{{_HERE}}}"),),
            "percentunit",
        ),
        Row("Connections"),
        Panel(
            "Open connections",
            (
                Query(
                    f"kafka_server_socket_server_metrics_connection_count{{{_HERE}}}",
                    "{{instance}} {{listener}}",
                ),
            ),
        ),
        Panel(
            "New connections",
            (
                Query(
                    "rate(kafka_server_socket_server_metrics_connection_creation_total"
                    f"{{{_HERE}}}[$__rate_interval])",
                    "{{instance}} {{listener}}",
                ),
            ),
            "cps",
        ),
        Panel(
            "Failed logins and refused connections",
            (
                Query(
                    "sum by (instance) "
                    "(rate(kafka_server_socket_server_metrics_failed_authentication_total"
                    f"{{{_HERE}}}[$__rate_interval]))",
                    "logins {{instance}}",
                ),
                Query(
                    f"rate(headrace_refused_connections_total{{{_HERE}}}[$__rate_interval])",
                    "connections {{instance}}",
                ),
            ),
            "cps",
        ),
        Row("Disks and replicas"),
        Panel(
            "Free disk space",
            (Query(f"headrace_log_directory_free_bytes{{{_HERE}}}", "{{instance}} {{path}}"),),
            "bytes",
        ),
        Panel(
            "Replication",
            (
                Query(
                    "rate(kafka_server_brokertopicmetrics_replicationbytesin_total"
                    f"{{{_HERE}}}[$__rate_interval])",
                    "in {{instance}}",
                ),
                Query(
                    "rate(kafka_server_brokertopicmetrics_replicationbytesout_total"
                    f"{{{_HERE}}}[$__rate_interval])",
                    "out {{instance}}",
                ),
            ),
            "Bps",
        ),
        Panel(
            "Leaders",
            (Query(f"kafka_server_replicamanager_leadercount{{{_HERE}}}"),),
        ),
    ),
    (_BROKER,),
)

PIPELINES: Final = Dashboard(
    "pipelines",
    "Headrace: pipelines",
    (
        Panel(
            "Rows landed",
            (
                Query(
                    "sum by (flow) "
                    '(rate(headrace_pipeline_rows_total{flow=~"$flow"}[$__rate_interval]))',
                    "{{flow}}",
                ),
            ),
            "rowsps",
            width=12,
        ),
        Panel(
            "Lag in records",
            (Query('sum by (flow) (headrace_pipeline_lag{flow=~"$flow"})', "{{flow}}"),),
            width=12,
        ),
        Panel(
            "Time since the last commit",
            (
                Query(
                    'time() - headrace_pipeline_last_commit_timestamp_seconds{flow=~"$flow"}',
                    "{{flow}}",
                ),
            ),
            "s",
            width=12,
        ),
        Panel(
            "Time of a batch by phase, p95",
            (
                Query(
                    "histogram_quantile(0.95, sum by (flow, phase, le) "
                    '(rate(headrace_pipeline_batch_seconds_bucket{flow=~"$flow"}'
                    "[$__rate_interval])))",
                    "{{flow}} {{phase}}",
                ),
            ),
            "s",
            width=12,
        ),
        Panel(
            "Bad records and dead letters",
            (
                Query(
                    "sum by (flow) (rate(headrace_pipeline_bad_records_total"
                    '{flow=~"$flow"}[$__rate_interval]))',
                    "bad {{flow}}",
                ),
                Query(
                    "sum by (flow) (rate(headrace_pipeline_dead_letters_total"
                    '{flow=~"$flow"}[$__rate_interval]))',
                    "dead letters {{flow}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Retries and failures",
            (
                Query(
                    "sum by (flow) (increase(headrace_pipeline_retries_total"
                    '{flow=~"$flow"}[$__rate_interval]))',
                    "retries {{flow}}",
                ),
                Query(
                    "sum by (flow) (increase(headrace_pipeline_failures_total"
                    '{flow=~"$flow"}[$__rate_interval]))',
                    "failures {{flow}}",
                ),
            ),
            width=12,
        ),
    ),
    (_FLOW,),
)

DASHBOARDS: Final = {
    dashboard.name: dashboard for dashboard in (OVERVIEW, TOPICS, GROUPS, BROKERS, PIPELINES)
}
