"""Broker settings: replication, the controller, ZooKeeper."""

TABLE = """\
alter.log.dirs.replication.quota.window.num int 11 min=1 LOW
    Windows of history for the quota of moves between data directories.
alter.log.dirs.replication.quota.window.size.seconds int 1 min=1 LOW
    Length of one window of that quota.
auto.leader.rebalance.enable boolean true HIGH
    Gives leadership back to the preferred replicas from time to time.
broker.id.generation.enable boolean true
    Lets the cluster choose an id for a broker that has none.
controlled.shutdown.enable boolean true
    Moves leaders to other brokers before this one stops.
controlled.shutdown.max.retries int 3
    Attempts to hand over leadership before the broker stops all the same.
controlled.shutdown.retry.backoff.ms long 5000
    Pause between those attempts.
controller.quota.window.num int 11 min=1 LOW
    Windows of history for the quota of topic and partition changes.
controller.quota.window.size.seconds int 1 min=1 LOW
    Length of one window of that quota.
controller.socket.timeout.ms int 30000
    How long brokers wait for an answer of the controller.
default.replication.factor int 1 min=1
    Replicas of a topic whose creator did not say how many.
follower.replication.throttled.rate long 9223372036854775807 min=0 cluster-wide hidden
    Bytes a second of throttled replicas that this broker takes in as a follower.
initial.broker.registration.timeout.ms int 60000
    How long a starting broker waits for a controller to take it in.
inter.broker.listener.name string null
    Listener that brokers use among themselves; unset, the first one.
leader.imbalance.check.interval.seconds long 300 min=1 HIGH
    How often the controller looks for leaders that are not the preferred ones.
leader.imbalance.per.broker.percentage int 10 HIGH
    Share of a broker's partitions that may be led elsewhere before leadership is given
    back.
leader.replication.throttled.rate long 9223372036854775807 min=0 cluster-wide hidden
    Bytes a second of throttled replicas that this broker sends as a leader.
min.insync.replicas int 1 min=1 HIGH cluster-wide
    Replicas, the leader included, that must have a record before acks=all is answered.
num.replica.fetchers int 1 min=1 HIGH cluster-wide
    Fetchers that copy from each other broker.
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 min=0 cluster-wide hidden
    Bytes a second of moves between data directories.
replica.fetch.backoff.ms int 1000 min=0
    Pause after a failed fetch from a leader.
replica.fetch.max.bytes int 1048576 min=0
    Bytes to fetch of each partition; a first batch that is larger comes all the same.
replica.fetch.min.bytes int 1 HIGH
    Bytes that must be there before a leader answers a follower, unless its wait is over.
replica.fetch.response.max.bytes int 10485760 min=0
    Bytes of one answer to a follower, over all its partitions.
replica.fetch.wait.max.ms int 500 HIGH
    Longest wait of a follower's fetch for new records.
replica.high.watermark.checkpoint.interval.ms long 5000 HIGH
    How often high watermarks are written to disk.
replica.lag.time.max.ms long 30000 HIGH
    A follower that has not caught up for this long leaves the in-sync replicas.
replica.selector.class string null
    How readers are sent to replicas: unset always to the leader, or
    RackAwareReplicaSelector.
replica.socket.receive.buffer.bytes int 65536 HIGH
    SO_RCVBUF of connections to leaders; -1 leaves it to the system.
replica.socket.timeout.ms int 30000 HIGH
    How long a follower waits for a leader's answer.
replication.quota.window.num int 11 min=1 LOW
    Windows of history for the quota of replication.
replication.quota.window.size.seconds int 1 min=1 LOW
    Length of one window of that quota.
reserved.broker.max.id int 1000 min=0
    Ids up to this one are for people to give; chosen ones lie above.
unclean.leader.election.enable boolean false HIGH cluster-wide
    Lets a replica that was not in sync lead when no other is left: available again, but
    records are lost.
unclean.leader.election.interval.ms long 300000 min=1 hidden
    How often the controller looks for partitions that need an unclean election.
zookeeper.connect string null HIGH
    The ZooKeeper ensemble, as host:port,host:port/chroot; unset, the node keeps its own
    metadata.
zookeeper.connection.timeout.ms int null HIGH
    Longest wait for a connection to ZooKeeper; unset, the session timeout.
zookeeper.max.in.flight.requests int 10 min=1 HIGH
    Requests to ZooKeeper that may be under way.
zookeeper.session.timeout.ms int 18000 min=1 HIGH
    Time without contact after which ZooKeeper gives up this broker's session.
zookeeper.set.acl boolean false HIGH
    Protects znodes so that only brokers can change them.
zookeeper.ssl.cipher.suites list null LOW
    Cipher suites towards ZooKeeper.
zookeeper.ssl.client.enable boolean false
    Uses TLS towards ZooKeeper.
zookeeper.ssl.enabled.protocols list null LOW
    TLS versions towards ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm string HTTPS LOW
    Checks ZooKeeper's host names against their certificates; empty turns that off.
zookeeper.ssl.keystore.location string null
    File with the key and certificates shown to ZooKeeper.
zookeeper.ssl.keystore.password password null
    Password of that file.
zookeeper.ssl.keystore.type string null
    Format of that file.
zookeeper.ssl.protocol string TLSv1.2 LOW
    TLS version towards ZooKeeper.
zookeeper.ssl.truststore.location string null
    File with the certificates that ZooKeeper is checked with.
zookeeper.ssl.truststore.password password null
    Password of that file.
zookeeper.ssl.truststore.type string null
    Format of that file.
"""
