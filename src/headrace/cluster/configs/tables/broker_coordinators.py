"""Broker settings: groups, offsets, transactions, share state."""

TABLE = """\
add.partitions.to.txn.retry.backoff.max.ms int 100 min=0 HIGH
    Maximum time that the broker retries adding a partition to a transaction.
add.partitions.to.txn.retry.backoff.ms int 20 min=1 HIGH
    Pause between attempts to add a partition to a transaction.
errors.deadletterqueue.auto.create.topics.enable boolean false cluster-wide hidden
    Creates the dead-letter topic of a share group with its first dead letter (KIP-1191).
errors.deadletterqueue.topic.name.prefix string dlq. cluster-wide hidden
    Required prefix of dead-letter topic names; empty allows any name (KIP-1191).
group.consumer.assignment.interval.ms int 1000 min=0 cluster-wide
    Minimum time between two assignments of a consumer group.
group.consumer.assignors list uniform,range
    Server-side assignors for consumer groups; the first is the default.
group.consumer.heartbeat.interval.ms int 5000 min=1
    Heartbeat interval of the members of consumer groups.
group.consumer.max.assignment.interval.ms int 15000 min=0
    Maximum assignment interval that a consumer group may set.
group.consumer.max.heartbeat.interval.ms int 15000 min=1
    Maximum heartbeat interval that a consumer group may set.
group.consumer.max.session.timeout.ms int 60000 min=1
    Maximum session timeout that a consumer group may set.
group.consumer.max.size int 2147483647 min=1
    Maximum number of members of a consumer group.
group.consumer.migration.policy string bidirectional in=DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL \
icase
    Allowed conversions of running groups between the classic and the consumer protocol.
group.consumer.min.assignment.interval.ms int 0 min=0
    Minimum assignment interval that a consumer group may set.
group.consumer.min.heartbeat.interval.ms int 5000 min=1
    Minimum heartbeat interval that a consumer group may set.
group.consumer.min.session.timeout.ms int 45000 min=1
    Minimum session timeout that a consumer group may set.
group.consumer.regex.refresh.interval.ms int 600000 min=10000 hidden
    How often subscriptions by pattern are matched against the topics again.
group.consumer.session.timeout.ms int 45000 min=1
    Time without a heartbeat after which a member is removed from a consumer group.
group.coordinator.append.linger.ms int -1 min=-1
    How long a group coordinator collects records for one write; -1 adapts to the load.
group.coordinator.cached.buffer.max.bytes int 1048588 min=524288 cluster-wide
    Maximum size of the write buffer that a group coordinator keeps for reuse.
group.coordinator.rebalance.protocols list classic,consumer,streams \
in=consumer|classic|share|streams
    Group protocols that the broker serves.
group.initial.rebalance.delay.ms int 3000
    How long an empty classic group waits for more members before its first rebalance.
group.max.session.timeout.ms int 1800000
    Maximum session timeout that a member of a classic group may request.
group.max.size int 2147483647 min=1
    Maximum number of members of a classic group.
group.min.session.timeout.ms int 6000
    Minimum session timeout that a member of a classic group may request.
group.share.assignment.interval.ms int 1000 min=0 cluster-wide
    Minimum time between two assignments of a share group.
group.share.assignors list simple
    Server-side assignors for share groups.
group.share.delivery.count.limit int 5 min=2 max=10
    Maximum number of deliveries of a record to a share group; the record is then archived.
group.share.heartbeat.interval.ms int 5000 min=1
    Heartbeat interval of the members of share groups.
group.share.initialize.retry.interval.ms int 30000 min=1 LOW hidden
    Pause before initializing the state of a share partition is retried.
group.share.max.assignment.interval.ms int 15000 min=0
    Maximum assignment interval that a share group may set.
group.share.max.delivery.count.limit int 10 min=5 max=25
    Maximum delivery limit that a share group may set.
group.share.max.heartbeat.interval.ms int 15000 min=1
    Maximum heartbeat interval that a share group may set.
group.share.max.partition.max.record.locks int 4000 min=2000 max=10000
    Maximum number of record locks that a share group may set.
group.share.max.record.lock.duration.ms int 60000 min=30000 max=3600000
    Maximum lock duration that a share group may set.
group.share.max.session.timeout.ms int 60000 min=1
    Maximum session timeout that a share group may set.
group.share.max.share.sessions int 2000 min=1
    Maximum number of share sessions in the broker's cache.
group.share.max.size int 200 min=1 max=1000
    Maximum number of members of a share group.
group.share.min.assignment.interval.ms int 0 min=0
    Minimum assignment interval that a share group may set.
group.share.min.delivery.count.limit int 2 min=2 max=5
    Minimum delivery limit that a share group may set.
group.share.min.heartbeat.interval.ms int 5000 min=1
    Minimum heartbeat interval that a share group may set.
group.share.min.partition.max.record.locks int 100 min=100 max=2000
    Minimum number of record locks that a share group may set.
group.share.min.record.lock.duration.ms int 15000 min=1000 max=30000
    Minimum lock duration that a share group may set.
group.share.min.session.timeout.ms int 45000 min=1
    Minimum session timeout that a share group may set.
group.share.partition.max.record.locks int 2000 min=100 max=10000
    Maximum number of records of one partition that a share group may lock at once.
group.share.record.lock.duration.ms int 30000 min=1000 max=3600000
    How long a delivered record stays locked for its consumer.
group.share.session.timeout.ms int 45000 min=1
    Time without a heartbeat after which a member is removed from a share group.
group.streams.assignment.interval.ms int 1000 min=0 cluster-wide
    Minimum time between two assignments of a streams group.
group.streams.heartbeat.interval.ms int 5000 min=1
    Heartbeat interval of the members of streams groups.
group.streams.initial.rebalance.delay.ms int 3000 min=0
    How long an empty streams group waits for more members before its first rebalance.
group.streams.max.assignment.interval.ms int 15000 min=0
    Maximum assignment interval that a streams group may set.
group.streams.max.heartbeat.interval.ms int 15000 min=1
    Maximum heartbeat interval that a streams group may set.
group.streams.max.session.timeout.ms int 60000 min=1
    Maximum session timeout that a streams group may set.
group.streams.max.size int 2147483647 min=1
    Maximum number of members of a streams group.
group.streams.max.standby.replicas int 2 min=0
    Maximum number of standby replicas that a streams group may set.
group.streams.min.assignment.interval.ms int 0 min=0
    Minimum assignment interval that a streams group may set.
group.streams.min.heartbeat.interval.ms int 5000 min=1
    Minimum heartbeat interval that a streams group may set.
group.streams.min.session.timeout.ms int 45000 min=1
    Minimum session timeout that a streams group may set.
group.streams.num.standby.replicas int 0 min=0
    Standby replicas of each task of a streams group.
group.streams.session.timeout.ms int 45000 min=1
    Time without a heartbeat after which a member is removed from a streams group.
offset.metadata.max.bytes int 4096 HIGH
    Maximum size of the metadata string that a consumer commits with an offset.
offsets.commit.required.acks short -1 min=-1 HIGH hidden
    Acknowledgements required for an offset commit; only -1 (all) is safe.
offsets.commit.timeout.ms int 5000 min=1 HIGH
    How long an offset commit waits for the replicas of __consumer_offsets.
offsets.load.buffer.size int 5242880 min=1 HIGH
    Bytes per read when a coordinator loads committed offsets.
offsets.retention.check.interval.ms long 600000 min=1 HIGH
    How often the broker checks for expired offsets.
offsets.retention.minutes int 10080 min=1 HIGH
    How long the committed offsets of an empty group, or of a topic that a group no longer
    reads, are kept.
offsets.topic.compression.codec int 0 HIGH
    Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
offsets.topic.num.partitions int 50 min=1 HIGH
    Number of partitions of __consumer_offsets; do not change it once the topic exists.
offsets.topic.replication.factor short 3 min=1 HIGH
    Replication factor of __consumer_offsets; a smaller cluster uses its number of brokers.
offsets.topic.segment.bytes int 104857600 min=1 HIGH
    Segment size of __consumer_offsets; small segments load and compact sooner.
share.coordinator.append.linger.ms int -1 min=-1
    How long the share coordinator collects records for one write; -1 adapts to the load.
share.coordinator.cached.buffer.max.bytes int 1048588 min=524288 cluster-wide
    Maximum size of the write buffer that a share coordinator keeps for reuse.
share.coordinator.cold.partition.snapshot.interval.ms int 300000 min=1 LOW hidden
    How often state that no longer changes is written as a snapshot.
share.coordinator.load.buffer.size int 5242880 min=1 HIGH
    Bytes per read when share state is loaded.
share.coordinator.snapshot.update.records.per.snapshot int 500 min=0 max=500
    Updates of a share partition's state between two snapshots.
share.coordinator.state.topic.compression.codec int 0 HIGH
    Codec of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
share.coordinator.state.topic.min.isr short 2 min=1 HIGH
    min.insync.replicas of __share_group_state.
share.coordinator.state.topic.num.partitions int 50 min=1 HIGH
    Number of partitions of __share_group_state; do not change it once the topic exists.
share.coordinator.state.topic.prune.interval.ms int 300000 min=1 LOW hidden
    How often superseded records of __share_group_state are deleted.
share.coordinator.state.topic.replication.factor short 3 min=1 HIGH
    Replication factor of __share_group_state; a smaller cluster uses its number of brokers.
share.coordinator.state.topic.segment.bytes int 104857600 min=1 HIGH
    Segment size of __share_group_state.
share.coordinator.write.timeout.ms int 5000 min=1 HIGH
    How long a write of share state waits for its replicas.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 min=1 LOW
    How often the broker checks for transactions that have timed out.
transaction.max.timeout.ms int 900000 min=1 HIGH
    Maximum transaction timeout that a producer may request.
transaction.partition.verification.enable boolean true LOW cluster-wide
    Verifies with the coordinator that a partition belongs to the transaction before appending.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 min=1 LOW
    How often the broker checks for expired transactional ids.
transaction.state.log.load.buffer.size int 5242880 min=1 HIGH
    Bytes per read when transactions are loaded.
transaction.state.log.min.isr int 2 min=1 HIGH
    min.insync.replicas of __transaction_state.
transaction.state.log.num.partitions int 50 min=1 HIGH
    Number of partitions of __transaction_state; do not change it once the topic exists.
transaction.state.log.replication.factor short 3 min=1 HIGH
    Replication factor of __transaction_state; a smaller cluster uses its number of brokers.
transaction.state.log.segment.bytes int 104857600 min=1 HIGH
    Segment size of __transaction_state.
transaction.two.phase.commit.enable boolean false LOW
    Allows producers to leave the end of a transaction to an external coordinator, without a
    timeout.
transactional.id.expiration.ms int 604800000 min=1 HIGH
    Idle time after which a transactional id expires.
"""
