"""Topic settings. `from=` names the broker settings that give a topic's default."""

TABLE = """\
cleanup.policy list delete in=compact|delete from=log.cleanup.policy
    What happens to old segments: `delete` by age and size, `compact` to the latest value of
    each key, or both.
compression.gzip.level int -1 rule=gzip-level from=compression.gzip.level
    Level when the broker recompresses with gzip; -1 is the codec's own default.
compression.lz4.level int 9 min=1 max=17 from=compression.lz4.level
    Level when the broker recompresses with lz4.
compression.type string producer in=uncompressed|zstd|lz4|snappy|gzip|producer \
from=compression.type
    Codec in which batches are stored: one codec's name, or `producer` to keep what the
    producer sent.
compression.zstd.level int 3 min=-131072 max=22 from=compression.zstd.level
    Level when the broker recompresses with zstd.
delete.retention.ms long 86400000 min=0 from=log.cleaner.delete.retention.ms
    How long tombstones and transaction markers stay readable in a compacted topic.
errors.deadletterqueue.group.enable boolean false hidden
    Lets share groups write their dead letters to the topic (KIP-1191).
file.delete.delay.ms long 60000 min=0 from=log.segment.delete.delay.ms
    How long a deleted segment's files stay on disk under a name ending in .deleted.
flush.messages long 9223372036854775807 min=1 from=log.flush.interval.messages
    Records that may gather before a partition is forced to disk; 1 flushes before each
    acknowledgement.
flush.ms long 9223372036854775807 min=0 from=log.flush.interval.ms,log.flush.scheduler.interval.ms
    Longest time a record waits to be forced to disk.
follower.replication.throttled.replicas list "" rule=throttled-replicas
    Replicas whose copying is throttled on the follower's side, as partition:broker, or *.
index.interval.bytes int 4096 min=0 from=log.index.interval.bytes
    Bytes of log between two entries of the offset index.
internal.segment.bytes int null hidden
    Segment size without its lower bound, for tests.
leader.replication.throttled.replicas list "" rule=throttled-replicas
    Replicas whose copying is throttled on the leader's side, as partition:broker, or *.
max.compaction.lag.ms long 9223372036854775807 min=1 from=log.cleaner.max.compaction.lag.ms
    A record is compacted at the latest this long after it was written.
max.message.bytes int 1048588 min=0 from=message.max.bytes
    Largest record batch, as it is sent, that the topic accepts.
message.timestamp.after.max.ms long 3600000 min=0 from=log.message.timestamp.after.max.ms
    How far a record's timestamp may lie in the broker's future before it is refused
    (CreateTime only).
message.timestamp.before.max.ms long 9223372036854775807 min=0 \
from=log.message.timestamp.before.max.ms
    How far a record's timestamp may lie in the broker's past before it is refused
    (CreateTime only).
message.timestamp.type string CreateTime in=CreateTime|LogAppendTime \
from=log.message.timestamp.type
    Whose time a record carries: the producer's (CreateTime) or the broker's
    (LogAppendTime).
min.cleanable.dirty.ratio double 0.5 min=0 max=1 from=log.cleaner.min.cleanable.ratio
    Share of the log that must be uncleaned before the cleaner takes it.
min.compaction.lag.ms long 0 min=0 from=log.cleaner.min.compaction.lag.ms
    A record stays uncompacted for at least this long.
min.insync.replicas int 1 min=1 from=min.insync.replicas
    Replicas, the leader included, that must have a record before acks=all is answered.
preallocate boolean false from=log.preallocate
    Reserves the whole file when a segment is created.
retention.bytes long -1 from=log.retention.bytes
    Size at which a partition's oldest segments are deleted; -1 is no limit.
retention.ms long 604800000 min=-1 \
from=log.retention.ms,log.retention.minutes*60000,log.retention.hours*3600000
    Milliseconds after which segments are deleted; -1 keeps them for ever.
segment.bytes int 1073741824 min=1048576 from=log.segment.bytes
    Size at which a segment is closed and the next one begun.
segment.index.bytes int 10485760 min=4 from=log.index.size.max.bytes
    Largest size of an index file; a segment is rolled when its index is full.
segment.jitter.ms long 0 min=0 from=log.roll.jitter.ms,log.roll.jitter.hours*3600000
    Random part that is taken off segment.ms, so that not all partitions roll at once.
segment.ms long 604800000 min=1 from=log.roll.ms,log.roll.hours*3600000
    Milliseconds after which a segment is closed even if it is not full.
unclean.leader.election.enable boolean false from=unclean.leader.election.enable
    Lets a replica that was not in sync lead when no other is left: available again, but
    records are lost.
"""

INERT = """\
local.retention.bytes long -2 min=-2 from=log.local.retention.bytes
    Bytes to keep locally once tiered; -2 means the value of retention.bytes.
local.retention.ms long -2 min=-2 from=log.local.retention.ms
    Time to keep local segments once tiered; -2 means the value of retention.ms.
remote.log.copy.disable boolean false
    Stops copying the topic to tiered storage.
remote.log.delete.on.disable boolean false
    Deletes what was tiered when tiering is turned off.
remote.storage.enable boolean false
    Keeps old segments in tiered storage, which is not offered here.
"""
