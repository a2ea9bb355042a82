"""Settings of one consumer, share or streams group."""

TABLE = """\
consumer.assignment.interval.ms int 1000 min=0 from=group.consumer.assignment.interval.ms
    Minimum time between two assignments of the consumer group.
consumer.heartbeat.interval.ms int 5000 min=1 from=group.consumer.heartbeat.interval.ms
    Heartbeat interval of the group's members.
consumer.session.timeout.ms int 45000 min=1 from=group.consumer.session.timeout.ms
    Time without a heartbeat after which a member is removed from the consumer group.
errors.deadletterqueue.copy.record.enable boolean false hidden
    Copies the key and value of the record into the share group's dead letters; otherwise they
    have only headers with the record's position (KIP-1191).
errors.deadletterqueue.topic.name string "" hidden
    Topic for records that the share group rejects or has delivered too often; empty turns dead
    letters off (KIP-1191).
share.assignment.interval.ms int 1000 min=0 from=group.share.assignment.interval.ms
    Minimum time between two assignments of the share group.
share.auto.offset.reset string latest rule=offset-reset
    Start position of a share group on a partition it has not read: earliest, latest or
    by_duration:<ISO 8601>.
share.delivery.count.limit int 5 min=2 from=group.share.delivery.count.limit
    Maximum number of deliveries of a record to the share group; the record is then archived.
share.heartbeat.interval.ms int 5000 min=1 from=group.share.heartbeat.interval.ms
    Heartbeat interval of the group's members.
share.isolation.level string read_uncommitted in=read_committed|read_uncommitted
    Whether the share group reads records of open and aborted transactions.
share.partition.max.record.locks int 2000 min=100 from=group.share.partition.max.record.locks
    Maximum number of locked records in one partition.
share.record.lock.duration.ms int 30000 min=1000 from=group.share.record.lock.duration.ms
    How long a delivered record stays locked for its consumer.
share.renew.acknowledge.enable boolean true
    Allows consumers to renew the lock of a record that they are still processing.
share.session.timeout.ms int 45000 min=1 from=group.share.session.timeout.ms
    Time without a heartbeat after which a member is removed from the share group.
streams.assignment.interval.ms int 1000 min=0 from=group.streams.assignment.interval.ms
    Minimum time between two assignments of the streams group.
streams.heartbeat.interval.ms int 5000 min=1 from=group.streams.heartbeat.interval.ms
    Heartbeat interval of the group's members.
streams.initial.rebalance.delay.ms int 3000 min=0 from=group.streams.initial.rebalance.delay.ms
    How long an empty group waits for more members before its first rebalance.
streams.num.standby.replicas int 0 min=0 from=group.streams.num.standby.replicas
    Standby replicas of each task.
streams.session.timeout.ms int 45000 min=1 from=group.streams.session.timeout.ms
    Time without a heartbeat after which a member is removed from the streams group.
"""
