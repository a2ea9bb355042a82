"""Broker settings: replication, the controller, ZooKeeper."""

TABLE = """\
alter.log.dirs.replication.quota.window.num int 11 min=1 LOW
    Number of windows for the quota of moves between log directories.
alter.log.dirs.replication.quota.window.size.seconds int 1 min=1 LOW
    Length of one window of the quota of moves between log directories.
auto.leader.rebalance.enable boolean true HIGH
    Periodically moves leadership back to the preferred replicas.
broker.id.generation.enable boolean true
    Generates an id for a broker that has none.
controlled.shutdown.enable boolean true
    Moves leaders to other brokers before this broker stops.
controlled.shutdown.max.retries int 3
    Attempts to move leaders away before the broker stops anyway.
controlled.shutdown.retry.backoff.ms long 5000
    Pause between attempts to move leaders away.
controller.quota.window.num int 11 min=1 LOW
    Number of windows for the quota of topic and partition changes.
controller.quota.window.size.seconds int 1 min=1 LOW
    Length of one window of the quota of topic and partition changes.
controller.socket.timeout.ms int 30000
    How long brokers wait for a response from the controller.
default.replication.factor int 1 min=1
    Replication factor of a topic created without one.
follower.replication.throttled.rate long 9223372036854775807 min=0 cluster-wide hidden
    Bytes per second of throttled replicas that this broker receives as a follower.
initial.broker.registration.timeout.ms int 60000
    How long a starting broker waits for a controller to accept its registration.
inter.broker.listener.name string null
    Listener for connections between brokers; if unset, the one that is named like
    security.inter.broker.protocol, or else the first one.
leader.imbalance.check.interval.seconds long 300 min=1 HIGH
    How often the controller checks for leaders that are not the preferred replicas.
leader.imbalance.per.broker.percentage int 10 HIGH
    Percentage of a broker's partitions that may be led elsewhere before leadership moves back.
leader.replication.throttled.rate long 9223372036854775807 min=0 cluster-wide hidden
    Bytes per second of throttled replicas that this broker sends as a leader.
min.insync.replicas int 1 min=1 HIGH cluster-wide
    Minimum number of in-sync replicas, including the leader, that must have a record before
    acks=all is acknowledged.
num.replica.fetchers int 1 min=1 HIGH cluster-wide
    Fetchers per source broker. It has no effect: one connection replicates all partitions from
    a broker.
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 min=0 cluster-wide hidden
    Bytes per second of moves between log directories.
replica.fetch.backoff.ms int 1000 min=0
    Pause after a failed fetch from a leader.
replica.fetch.max.bytes int 1048576 min=0
    Bytes to fetch for each partition; a first batch that is larger is still sent.
replica.fetch.min.bytes int 1 HIGH
    Minimum bytes before a leader responds to a follower, unless its wait time is over.
replica.fetch.response.max.bytes int 10485760 min=0
    Maximum size of a response to a follower, over all its partitions.
replica.fetch.wait.max.ms int 500 HIGH
    Maximum time that a follower's fetch waits for new records.
replica.high.watermark.checkpoint.interval.ms long 5000 HIGH
    How often high watermarks are written to disk.
replica.lag.time.max.ms long 30000 HIGH
    Time without catching up after which a follower leaves the in-sync set.
replica.selector.class string null
    Replica that consumers read from: if unset, the leader; RackAwareReplicaSelector prefers a
    replica in the consumer's rack.
replica.socket.receive.buffer.bytes int 65536 HIGH
    SO_RCVBUF of connections to leaders; -1 uses the operating system's default.
replica.socket.timeout.ms int 30000 HIGH
    How long a follower waits for a leader's response.
replication.quota.window.num int 11 min=1 LOW
    Number of windows for the replication quota.
replication.quota.window.size.seconds int 1 min=1 LOW
    Length of one window of the replication quota.
reserved.broker.max.id int 1000 min=0
    Highest id that operators may assign; generated ids are above it.
unclean.leader.election.enable boolean false HIGH cluster-wide
    Allows an out-of-sync replica to become leader when no other is left. The partition becomes
    available again, but records are lost.
unclean.leader.election.interval.ms long 300000 min=1 hidden
    How often the controller checks for partitions that need an unclean election.
zookeeper.connect string null HIGH
    ZooKeeper ensemble, as host:port,host:port/chroot; if unset, the node stores its own
    metadata.
zookeeper.connection.timeout.ms int null HIGH
    Maximum wait for a connection to ZooKeeper; if unset, the session timeout.
zookeeper.max.in.flight.requests int 10 min=1 HIGH
    Maximum number of requests to ZooKeeper in progress.
zookeeper.session.timeout.ms int 18000 min=1 HIGH
    Time without contact after which ZooKeeper expires this broker's session.
zookeeper.set.acl boolean false HIGH
    Protects znodes so that only brokers can change them.
zookeeper.ssl.cipher.suites list null LOW
    Cipher suites for ZooKeeper.
zookeeper.ssl.client.enable boolean false
    Uses TLS to ZooKeeper.
zookeeper.ssl.enabled.protocols list null LOW
    TLS versions for ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm string HTTPS LOW
    Verifies ZooKeeper's host names against their certificates; empty turns verification off.
zookeeper.ssl.keystore.location string null
    File with the key and certificates that this broker presents to ZooKeeper.
zookeeper.ssl.keystore.password password null
    Password of zookeeper.ssl.keystore.location.
zookeeper.ssl.keystore.type string null
    Format of zookeeper.ssl.keystore.location.
zookeeper.ssl.protocol string TLSv1.2 LOW
    TLS version for ZooKeeper.
zookeeper.ssl.truststore.location string null
    File with the certificates that verify ZooKeeper.
zookeeper.ssl.truststore.password password null
    Password of zookeeper.ssl.truststore.location.
zookeeper.ssl.truststore.type string null
    Format of zookeeper.ssl.truststore.location.
"""
