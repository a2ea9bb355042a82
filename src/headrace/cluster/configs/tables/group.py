"""Settings of one consumer, share or streams group."""

TABLE = """\
consumer.assignment.interval.ms int 1000 min=0 from=group.consumer.assignment.interval.ms
    Least time between two computed assignments of the consumer group.
consumer.heartbeat.interval.ms int 5000 min=1 from=group.consumer.heartbeat.interval.ms
    How often members of the consumer group send heartbeats.
consumer.session.timeout.ms int 45000 min=1 from=group.consumer.session.timeout.ms
    A member of the consumer group is removed after this time without a heartbeat.
errors.deadletterqueue.copy.record.enable boolean false hidden
    Whether dead letters of the share group have the key and the value of the record, or only
    headers that say where it is (KIP-1191).
errors.deadletterqueue.topic.name string "" hidden
    Topic for records that the share group rejects or has tried to deliver too often; nothing
    for none (KIP-1191).
share.assignment.interval.ms int 1000 min=0 from=group.share.assignment.interval.ms
    Least time between two computed assignments of the share group.
share.auto.offset.reset string latest rule=offset-reset
    Where a share group starts on a partition it has not read: earliest, latest or
    by_duration:<ISO 8601>.
share.delivery.count.limit int 5 min=2 from=group.share.delivery.count.limit
    Times that a record is delivered to the share group before it is given up.
share.heartbeat.interval.ms int 5000 min=1 from=group.share.heartbeat.interval.ms
    How often members of the share group send heartbeats.
share.isolation.level string read_uncommitted in=read_committed|read_uncommitted
    Whether the share group reads records of open and aborted transactions.
share.partition.max.record.locks int 2000 min=100 from=group.share.partition.max.record.locks
    Records of one partition that may be locked at the same time.
share.record.lock.duration.ms int 30000 min=1000 from=group.share.record.lock.duration.ms
    How long a delivered record stays locked for its reader.
share.renew.acknowledge.enable boolean true
    Lets readers renew the lock of a record they still work on.
share.session.timeout.ms int 45000 min=1 from=group.share.session.timeout.ms
    A member of the share group is removed after this time without a heartbeat.
streams.assignment.interval.ms int 1000 min=0 from=group.streams.assignment.interval.ms
    Least time between two computed assignments of the streams group.
streams.heartbeat.interval.ms int 5000 min=1 from=group.streams.heartbeat.interval.ms
    How often members of the streams group send heartbeats.
streams.initial.rebalance.delay.ms int 3000 min=0 from=group.streams.initial.rebalance.delay.ms
    How long the empty group waits for further members before its first rebalance.
streams.num.standby.replicas int 0 min=0 from=group.streams.num.standby.replicas
    Standby replicas of each task.
streams.session.timeout.ms int 45000 min=1 from=group.streams.session.timeout.ms
    A member of the streams group is removed after this time without a heartbeat.
"""
