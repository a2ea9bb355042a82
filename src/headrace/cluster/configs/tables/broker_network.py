"""Broker settings: identity, listeners, requests, limits, and those that are Headrace's own."""

TABLE = """\
advertised.listeners list null HIGH
    Addresses that clients are told to connect to, as NAME://host:port; unset, those of
    listeners.
auto.create.topics.enable boolean true HIGH
    Creates a topic when a client first asks for its metadata and allows it.
broker.id int -1 HIGH
    The broker's id, the older name of node.id; if both are set they must be equal.
broker.rack string null
    Where the broker stands; replicas of a partition are spread over racks, and readers may
    prefer theirs.
connection.failed.authentication.delay.ms int 100 min=0 LOW
    Delay before a connection that failed to authenticate is closed, to slow down guessing.
connections.max.idle.ms long 600000
    Idle time after which a connection is closed.
delete.topic.enable boolean true HIGH
    Lets clients delete topics.
fetch.max.bytes int 57671680 min=1024
    Most bytes that one fetch answer carries; a first batch that is larger is sent all the
    same.
flush string os in=os|ack
    When acknowledged records are on disk: `os` leaves it to the system, `ack` fsyncs before
    each acknowledgement (flush.messages is 1 unless log.flush.interval.messages or the
    topic says otherwise).
headrace.fast.failure.detection boolean true
    Replaces a broker at once when its connections end and new ones are refused; otherwise
    only the end of its ZooKeeper session counts.
headrace.max.inflight.bytes.per.connection long 134217728 min=1048576
    Bytes of answers of one connection that wait for an earlier one; past it the socket is not
    read.
headrace.max.inflight.requests.per.connection int 128 min=1
    Requests of one connection that may be under way; past it the socket is not read.
headrace.max.open.files int 1024 min=64
    Segment and index files that are kept open; the least used are closed.
headrace.replica.catch.up.rate long 62914560 min=1048576
    Bytes a second that a leader sends to a follower that lags behind, besides what is appended
    meanwhile; a batch counts as 8 KiB more than it has. Replicas in sync are never held back.
headrace.stop.timeout.ms int 10000 min=0
    Time that a graceful stop may take before it ends what still waits.
headrace.stray.log.retention.ms long 604800000 min=-1
    Time for which the log of a topic that the cluster does not know is set aside, as
    TOPIC-PARTITION.ID-stray, before it is removed; -1 keeps it for ever.
headrace.zookeeper.auth string null in=digest|sasl
    How this broker proves to ZooKeeper who it is; unset, it does not (TLS may).
headrace.zookeeper.password password null
    Password towards ZooKeeper.
headrace.zookeeper.username string null
    User name towards ZooKeeper.
listener.security.protocol.map string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT LOW per-broker
    Security protocol of each listener, as NAME:PROTOCOL.
listeners list PLAINTEXT://:9092 HIGH per-broker
    Addresses to listen on, as NAME://host:port; an empty host is all interfaces, port 0 any
    free port.
max.connection.creation.rate int 2147483647 min=0 cluster-wide
    New connections the broker takes each second.
max.connections int 2147483647 min=0 cluster-wide
    Connections the broker holds at the same time, over all listeners.
max.connections.per.ip int 2147483647 min=0 cluster-wide
    Connections from one address at the same time.
max.connections.per.ip.overrides string "" rule=connection-overrides cluster-wide
    Exceptions from max.connections.per.ip, as host:count separated by commas.
max.incremental.fetch.session.cache.slots int 1000 min=0
    Fetch sessions the broker remembers; a reader without one names all its partitions each
    time.
max.request.partition.size.limit int 2000 min=1
    Partitions that one request for topic descriptions may ask for.
metrics.num.samples int 2 min=1 LOW
    Windows that a rate is measured over.
metrics.recording.level string INFO in=INFO|DEBUG|TRACE LOW
    How much is measured: INFO, DEBUG or TRACE.
metrics.sample.window.ms long 30000 min=1 LOW
    Length of one window of measurement.
node.id int 1 min=0 HIGH
    The broker's id within its cluster.
num.partitions int 1 min=1
    Partitions of a topic whose creator did not say how many.
quota.window.num int 11 min=1 LOW
    Windows of history that client quotas are measured over.
quota.window.size.seconds int 1 min=1 LOW
    Length of one window of client quotas.
socket.connection.setup.timeout.max.ms long 30000
    Longest wait for a connection of the broker's own, after its back-off has grown.
socket.connection.setup.timeout.ms long 10000
    First wait for a connection of the broker's own.
socket.listen.backlog.size int 50 min=1
    Connections that may wait to be accepted.
socket.request.max.bytes int 104857600 min=1 HIGH
    Largest request; a connection that announces a larger one is closed.
telemetry.max.bytes int 1048576 min=1 LOW
    Largest compressed push of client metrics.
"""
