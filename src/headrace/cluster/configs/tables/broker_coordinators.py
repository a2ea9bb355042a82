"""Broker settings: groups, offsets, transactions, share state."""

TABLE = """\
add.partitions.to.txn.retry.backoff.max.ms int 100 min=0 HIGH
    Longest time the broker itself retries to add a partition to a transaction.
add.partitions.to.txn.retry.backoff.ms int 20 min=1 HIGH
    Pause between those retries.
errors.deadletterqueue.auto.create.topics.enable boolean false cluster-wide hidden
    Creates the dead-letter topic of a share group with its first dead letter (KIP-1191).
errors.deadletterqueue.topic.name.prefix string dlq. cluster-wide hidden
    How names of dead-letter topics must begin; nothing for any name (KIP-1191).
group.consumer.assignment.interval.ms int 1000 min=0 cluster-wide
    Least time between two computed assignments of a consumer group.
group.consumer.assignors list uniform,range
    Assignors that the broker offers to consumer groups; the first is the default.
group.consumer.heartbeat.interval.ms int 5000 min=1
    How often members of consumer groups send heartbeats.
group.consumer.max.assignment.interval.ms int 15000 min=0
    Largest assignment interval that a group may set.
group.consumer.max.heartbeat.interval.ms int 15000 min=1
    Largest heartbeat interval that a group may set.
group.consumer.max.session.timeout.ms int 60000 min=1
    Largest session timeout that a group may set.
group.consumer.max.size int 2147483647 min=1
    Members that one consumer group may have.
group.consumer.migration.policy string bidirectional in=DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL \
icase
    Which way groups may convert between the classic and the consumer protocol while they
    run.
group.consumer.min.assignment.interval.ms int 0 min=0
    Smallest assignment interval that a group may set.
group.consumer.min.heartbeat.interval.ms int 5000 min=1
    Smallest heartbeat interval that a group may set.
group.consumer.min.session.timeout.ms int 45000 min=1
    Smallest session timeout that a group may set.
group.consumer.regex.refresh.interval.ms int 600000 min=10000 hidden
    How often subscriptions by pattern are matched against the topics again.
group.consumer.session.timeout.ms int 45000 min=1
    A member of a consumer group is removed after this time without a heartbeat.
group.coordinator.append.linger.ms int -1 min=-1
    How long a coordinator gathers records of groups for one write; -1 adapts to the load.
group.coordinator.cached.buffer.max.bytes int 1048588 min=524288 cluster-wide
    Largest write buffer that a group coordinator keeps for reuse.
group.coordinator.rebalance.protocols list classic,consumer,streams \
in=consumer|classic|share|streams
    Group protocols that are served.
group.initial.rebalance.delay.ms int 3000
    How long an empty classic group waits for further members before its first rebalance.
group.max.session.timeout.ms int 1800000
    Largest session timeout that a member of a classic group may ask for.
group.max.size int 2147483647 min=1
    Members that one classic group may have.
group.min.session.timeout.ms int 6000
    Smallest session timeout that a member of a classic group may ask for.
group.share.assignment.interval.ms int 1000 min=0 cluster-wide
    Least time between two computed assignments of a share group.
group.share.assignors list simple
    Assignors that the broker offers to share groups.
group.share.delivery.count.limit int 5 min=2 max=10
    Times that a record is delivered to a share group before it is given up.
group.share.heartbeat.interval.ms int 5000 min=1
    How often members of share groups send heartbeats.
group.share.initialize.retry.interval.ms int 30000 min=1 LOW hidden
    Pause before the state of a share partition is initialised again.
group.share.max.assignment.interval.ms int 15000 min=0
    Largest assignment interval that a share group may set.
group.share.max.delivery.count.limit int 10 min=5 max=25
    Largest delivery limit that a share group may set.
group.share.max.heartbeat.interval.ms int 15000 min=1
    Largest heartbeat interval that a share group may set.
group.share.max.partition.max.record.locks int 4000 min=2000 max=10000
    Largest number of record locks that a share group may set.
group.share.max.record.lock.duration.ms int 60000 min=30000 max=3600000
    Longest lock that a share group may set.
group.share.max.session.timeout.ms int 60000 min=1
    Largest session timeout that a share group may set.
group.share.max.share.sessions int 2000 min=1
    Share sessions the broker remembers.
group.share.max.size int 200 min=1 max=1000
    Members that one share group may have.
group.share.min.assignment.interval.ms int 0 min=0
    Smallest assignment interval that a share group may set.
group.share.min.delivery.count.limit int 2 min=2 max=5
    Smallest delivery limit that a share group may set.
group.share.min.heartbeat.interval.ms int 5000 min=1
    Smallest heartbeat interval that a share group may set.
group.share.min.partition.max.record.locks int 100 min=100 max=2000
    Smallest number of record locks that a share group may set.
group.share.min.record.lock.duration.ms int 15000 min=1000 max=30000
    Shortest lock that a share group may set.
group.share.min.session.timeout.ms int 45000 min=1
    Smallest session timeout that a share group may set.
group.share.partition.max.record.locks int 2000 min=100 max=10000
    Records of one partition that may be locked by a share group at the same time.
group.share.record.lock.duration.ms int 30000 min=1000 max=3600000
    How long a delivered record stays locked for its reader.
group.share.session.timeout.ms int 45000 min=1
    A member of a share group is removed after this time without a heartbeat.
group.streams.assignment.interval.ms int 1000 min=0 cluster-wide
    Least time between two computed assignments of a streams group.
group.streams.heartbeat.interval.ms int 5000 min=1
    How often members of streams groups send heartbeats.
group.streams.initial.rebalance.delay.ms int 3000 min=0
    How long an empty streams group waits for further members before its first rebalance.
group.streams.max.assignment.interval.ms int 15000 min=0
    Largest assignment interval that a streams group may set.
group.streams.max.heartbeat.interval.ms int 15000 min=1
    Largest heartbeat interval that a streams group may set.
group.streams.max.session.timeout.ms int 60000 min=1
    Largest session timeout that a streams group may set.
group.streams.max.size int 2147483647 min=1
    Members that one streams group may have.
group.streams.max.standby.replicas int 2 min=0
    Most standby replicas that a streams group may set.
group.streams.min.assignment.interval.ms int 0 min=0
    Smallest assignment interval that a streams group may set.
group.streams.min.heartbeat.interval.ms int 5000 min=1
    Smallest heartbeat interval that a streams group may set.
group.streams.min.session.timeout.ms int 45000 min=1
    Smallest session timeout that a streams group may set.
group.streams.num.standby.replicas int 0 min=0
    Standby replicas of each task of a streams group.
group.streams.session.timeout.ms int 45000 min=1
    A member of a streams group is removed after this time without a heartbeat.
offset.metadata.max.bytes int 4096 HIGH
    Longest text that a consumer may commit with an offset.
offsets.commit.required.acks short -1 min=-1 HIGH hidden
    Acknowledgements that an offset commit waits for; only -1, all, is safe.
offsets.commit.timeout.ms int 5000 min=1 HIGH
    How long an offset commit waits for the replicas of __consumer_offsets.
offsets.load.buffer.size int 5242880 min=1 HIGH
    Bytes read at once when a coordinator loads committed offsets.
offsets.retention.check.interval.ms long 600000 min=1 HIGH
    How often committed offsets are looked over for removal.
offsets.retention.minutes int 10080 min=1 HIGH
    Committed offsets of an empty group, or of a topic nobody reads, are kept this long.
offsets.topic.compression.codec int 0 HIGH
    Codec of __consumer_offsets by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
offsets.topic.num.partitions int 50 min=1 HIGH
    Partitions of __consumer_offsets; do not change it once the topic exists.
offsets.topic.replication.factor short 3 min=1 HIGH
    Replicas of __consumer_offsets; a smaller cluster uses as many as it has brokers.
offsets.topic.segment.bytes int 104857600 min=1 HIGH
    Segment size of __consumer_offsets; small segments load and compact sooner.
share.coordinator.append.linger.ms int -1 min=-1
    How long the share coordinator gathers records for one write; -1 adapts to the load.
share.coordinator.cached.buffer.max.bytes int 1048588 min=524288 cluster-wide
    Largest write buffer that a share coordinator keeps for reuse.
share.coordinator.cold.partition.snapshot.interval.ms int 300000 min=1 LOW hidden
    How often state that no longer changes is written as a snapshot.
share.coordinator.load.buffer.size int 5242880 min=1 HIGH
    Bytes read at once when share state is loaded.
share.coordinator.snapshot.update.records.per.snapshot int 500 min=0 max=500
    Updates of a share partition's state between two snapshots.
share.coordinator.state.topic.compression.codec int 0 HIGH
    Codec of __share_group_state by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
share.coordinator.state.topic.min.isr short 2 min=1 HIGH
    min.insync.replicas of __share_group_state.
share.coordinator.state.topic.num.partitions int 50 min=1 HIGH
    Partitions of __share_group_state; do not change it once the topic exists.
share.coordinator.state.topic.prune.interval.ms int 300000 min=1 LOW hidden
    How often superseded records of __share_group_state are deleted.
share.coordinator.state.topic.replication.factor short 3 min=1 HIGH
    Replicas of __share_group_state; a smaller cluster uses as many as it has brokers.
share.coordinator.state.topic.segment.bytes int 104857600 min=1 HIGH
    Segment size of __share_group_state.
share.coordinator.write.timeout.ms int 5000 min=1 HIGH
    How long a write of share state waits for its replicas.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 min=1 LOW
    How often open transactions are looked over for their timeout.
transaction.max.timeout.ms int 900000 min=1 HIGH
    Longest transaction timeout that a producer may ask for.
transaction.partition.verification.enable boolean true LOW cluster-wide
    Checks with the coordinator that a partition belongs to the transaction before it
    appends.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 min=1 LOW
    How often idle transactional ids are looked over for removal.
transaction.state.log.load.buffer.size int 5242880 min=1 HIGH
    Bytes read at once when transactions are loaded.
transaction.state.log.min.isr int 2 min=1 HIGH
    min.insync.replicas of __transaction_state.
transaction.state.log.num.partitions int 50 min=1 HIGH
    Partitions of __transaction_state; do not change it once the topic exists.
transaction.state.log.replication.factor short 3 min=1 HIGH
    Replicas of __transaction_state; a smaller cluster uses as many as it has brokers.
transaction.state.log.segment.bytes int 104857600 min=1 HIGH
    Segment size of __transaction_state.
transaction.two.phase.commit.enable boolean false LOW
    Lets producers leave the end of a transaction to an outside coordinator, without a
    timeout.
transactional.id.expiration.ms int 604800000 min=1 HIGH
    Idle time after which a transactional id is forgotten.
"""
