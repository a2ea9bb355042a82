"""Broker settings: identity, listeners, requests, limits, and settings specific to Headrace."""

TABLE = """\
advertised.listeners list null HIGH
    Addresses that clients connect to, as NAME://host:port; if unset, those of listeners.
auto.create.topics.enable boolean true HIGH
    Creates a missing topic when a client requests its metadata and allows creation.
broker.id int -1 HIGH
    Id of the broker, the older name of node.id; if both are set, they must be equal.
broker.rack string null
    Rack of the broker. Replicas of a partition are spread over racks, and consumers can prefer
    a replica in their rack.
connection.failed.authentication.delay.ms int 100 min=0 LOW
    Delay before a connection that failed to authenticate is closed, to slow down guessing.
connections.max.idle.ms long 600000
    Idle time after which a connection is closed.
delete.topic.enable boolean true HIGH
    Allows clients to delete topics.
fetch.max.bytes int 57671680 min=1024
    Maximum size of a fetch response; a first batch that is larger is still sent.
flush string os in=os|ack
    When acknowledged records reach the disk: `os` leaves it to the operating system, `ack`
    calls fsync before each acknowledgement (flush.messages is then 1 unless
    log.flush.interval.messages or the topic sets it).
headrace.authentication.timeout.ms int 30000 min=100
    Maximum time from the acceptance of a connection until its client has authenticated, TLS
    handshake included; later, the connection is closed. Applies to SSL and SASL listeners.
headrace.client.metrics.enable boolean true
    Accepts metrics that clients push (KIP-714), if the extra `telemetry` is installed. Clients
    push only while a client-metrics resource matches them.
headrace.client.metrics.max.series int 20000 min=1
    Maximum number of series of all clients that push metrics to this broker; more are dropped and
    counted.
headrace.client.metrics.max.series.per.client int 1000 min=1
    Maximum number of series of one client that pushes metrics; more are dropped and counted.
headrace.fast.failure.detection boolean true
    Replaces a broker at once when its connections end and new ones are refused. If off, only
    the end of its ZooKeeper session counts.
headrace.http.authentication list "" in=basic|bearer
    How clients of the HTTP port authenticate for /metrics: `basic` with the name and the
    password of a SCRAM user of the cluster, `bearer` with the token in
    headrace.http.bearer.token.file. Either of them is enough if both are set. If empty, clients
    do not authenticate. Probes never do.
headrace.http.bearer.token.file string null
    File with the bearer token for /metrics; it is read again when it changes.
headrace.http.listener string "" HIGH
    Address of the HTTP port for metrics and probes, such as http://127.0.0.1:9644; port 0
    chooses a free port. With https://, the port uses the ssl.* settings, or those of
    listener.name.http. If empty, the broker has no HTTP port and counts no requests.
headrace.http.max.connections int 64 min=1
    Maximum number of connections to the HTTP port; more of them wait.
headrace.http.max.group.partitions int 20000 min=0
    Maximum number of partitions of consumer groups, and of share groups, whose lag has series of
    its own in /metrics. The groups with the fewest partitions have them; sums count all groups.
headrace.http.max.partitions int 20000 min=0
    Maximum number of partitions with series of their own in /metrics. The partitions of the
    topics that come first by name have them.
headrace.http.max.topics int 2000 min=0
    Maximum number of topics with series of their own in /metrics. The topics that come first by
    name have them; totals count all topics.
headrace.http.timeout.ms int 10000 min=100
    Maximum time for a client of the HTTP port to send a request, and to read the response.
headrace.log.format string text in=text|logfmt|json
    Format of the log on stderr; --log-format overrides it.
headrace.log.level string null in=FATAL|ERROR|WARN|INFO|DEBUG|TRACE
    Least severe level that is logged; if unset, INFO for `broker start` and WARN for `up`.
    `headrace config set broker-logger` changes levels while the broker runs.
headrace.max.inflight.bytes.per.connection long 134217728 min=1048576
    Maximum bytes of responses of one connection that wait for an earlier response; above it,
    the socket is not read.
headrace.max.inflight.requests.per.connection int 128 min=1
    Maximum number of requests of one connection in progress; above it, the socket is not read.
headrace.max.open.files int 1024 min=64
    Maximum number of segment and index files kept open; the least recently used are closed.
headrace.oauthbearer.allowed.urls list ""
    URLs that sasl.oauthbearer.jwks.endpoint.url may have although they are not https: files
    (file:///...), and http on this machine for tests.
headrace.replica.catch.up.rate long 62914560 min=1048576
    Bytes per second that a leader sends to a lagging follower, in addition to newly appended
    records; each batch counts as 8 KiB more than its size. In-sync replicas are never
    throttled.
headrace.slow.request.ms int 1000 min=0 cluster-wide
    Time from which on a request is logged as slow; 0 logs none. Times for which a request waits
    as its client asked, such as those of Fetch, do not count.
headrace.stop.timeout.ms int 10000 min=0
    Maximum time for a graceful shutdown; pending requests are then ended.
headrace.stray.log.retention.ms long 604800000 min=-1
    How long the log of a topic that the cluster does not know is kept, as
    TOPIC-PARTITION.ID-stray, before it is removed; -1 keeps it forever.
headrace.tracing.endpoint string null
    URL of an OTLP/HTTP receiver of traces, such as http://127.0.0.1:4318; needs the extra
    `telemetry`. If unset, the broker looks for no traces.
headrace.tracing.max.batches.per.second int 100 min=1
    Maximum number of batches per second in which the broker looks for `traceparent` headers.
headrace.tracing.sampling.ratio double 1.0 min=0.0 max=1.0
    Share of traces that get spans; the same traces on every broker.
headrace.zookeeper.auth string null in=digest|sasl
    How this broker authenticates to ZooKeeper; if unset, it does not, except through TLS.
headrace.zookeeper.password password null
    Password for ZooKeeper.
headrace.zookeeper.username string null
    User name for ZooKeeper.
listener.security.protocol.map string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT LOW per-broker
    Security protocol of each listener, as NAME:PROTOCOL.
listeners list PLAINTEXT://:9092 HIGH per-broker
    Addresses to listen on, as NAME://host:port; an empty host means all interfaces, port 0 any
    free port.
max.connection.creation.rate int 2147483647 min=0 cluster-wide
    Maximum number of new connections per second.
max.connections int 2147483647 min=0 cluster-wide
    Maximum number of connections at the same time, over all listeners.
max.connections.per.ip int 2147483647 min=0 cluster-wide
    Maximum number of connections from one address at the same time.
max.connections.per.ip.overrides string "" rule=connection-overrides cluster-wide
    Exceptions to max.connections.per.ip, as host:count separated by commas.
max.incremental.fetch.session.cache.slots int 1000 min=0
    Maximum number of fetch sessions in the broker's cache; a consumer without a session sends
    all its partitions in each fetch.
max.request.partition.size.limit int 2000 min=1
    Maximum number of partitions in one DescribeTopicPartitions response.
metrics.num.samples int 2 min=1 LOW
    Number of windows that a rate is measured over.
metrics.recording.level string INFO in=INFO|DEBUG|TRACE LOW
    Level of detail of metrics: INFO, DEBUG or TRACE.
metrics.sample.window.ms long 30000 min=1 LOW
    Length of one measurement window.
node.id int 1 min=0 HIGH
    Id of the broker within its cluster.
num.partitions int 1 min=1
    Number of partitions of a topic created without one.
quota.window.num int 11 min=1 LOW
    Number of windows that client quotas are measured over.
quota.window.size.seconds int 1 min=1 LOW
    Length of one window of client quotas.
socket.connection.setup.timeout.max.ms long 30000
    Maximum timeout for the broker's outgoing connections, after back-off.
socket.connection.setup.timeout.ms long 10000
    Initial timeout for the broker's outgoing connections.
socket.listen.backlog.size int 50 min=1
    Connections that may wait to be accepted.
socket.receive.buffer.bytes int 102400 min=-1 HIGH
    SO_RCVBUF of connections with TLS; -1 uses the operating system's default, as connections
    without TLS always do. Raise it for fast producers that are far away.
socket.request.max.bytes int 104857600 min=1 HIGH
    Maximum size of a request; a connection that announces a larger one is closed.
telemetry.max.bytes int 1048576 min=1 LOW
    Maximum size of a push of client metrics, compressed and decompressed.
"""
