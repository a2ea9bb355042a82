"""Topic settings. `from=` names the broker settings that supply a topic's default."""

TABLE = """\
cleanup.policy list delete in=compact|delete from=log.cleanup.policy
    Cleanup of old segments: `delete` removes them by age and size, `compact` keeps the latest
    value of each key; both may be set.
compression.gzip.level int -1 rule=gzip-level from=compression.gzip.level
    Compression level when the broker recompresses with gzip; -1 is the codec's default.
compression.lz4.level int 9 min=1 max=17 from=compression.lz4.level
    Compression level when the broker recompresses with lz4.
compression.type string producer in=uncompressed|zstd|lz4|snappy|gzip|producer \
from=compression.type
    Codec of stored batches: the name of a codec, or `producer` to keep the producer's codec.
compression.zstd.level int 3 min=-131072 max=22 from=compression.zstd.level
    Compression level when the broker recompresses with zstd.
delete.retention.ms long 86400000 min=0 from=log.cleaner.delete.retention.ms
    How long tombstones and transaction markers stay readable in a compacted topic.
errors.deadletterqueue.group.enable boolean false hidden
    Allows share groups to write dead letters to this topic (KIP-1191).
file.delete.delay.ms long 60000 min=0 from=log.segment.delete.delay.ms
    How long the files of a deleted segment stay on disk, with the suffix .deleted.
flush.messages long 9223372036854775807 min=1 from=log.flush.interval.messages
    Maximum number of unflushed records in a partition; 1 flushes before each acknowledgement.
flush.ms long 9223372036854775807 min=0 from=log.flush.interval.ms,log.flush.scheduler.interval.ms
    Maximum time before a record is flushed to disk.
follower.replication.throttled.replicas list "" rule=throttled-replicas
    Replicas whose replication is throttled on the follower, as partition:broker, or * for all.
index.interval.bytes int 4096 min=0 from=log.index.interval.bytes
    Bytes of log between two entries of the offset index.
internal.segment.bytes int null hidden
    Segment size without the lower limit, for tests.
leader.replication.throttled.replicas list "" rule=throttled-replicas
    Replicas whose replication is throttled on the leader, as partition:broker, or * for all.
max.compaction.lag.ms long 9223372036854775807 min=1 from=log.cleaner.max.compaction.lag.ms
    Maximum time a record stays uncompacted after it was written.
max.message.bytes int 1048588 min=0 from=message.max.bytes
    Maximum size of a record batch, as it is sent.
message.timestamp.after.max.ms long 3600000 min=0 from=log.message.timestamp.after.max.ms
    Maximum time that a record's timestamp may be ahead of the broker's clock (CreateTime only);
    later timestamps are rejected.
message.timestamp.before.max.ms long 9223372036854775807 min=0 \
from=log.message.timestamp.before.max.ms
    Maximum time that a record's timestamp may be behind the broker's clock (CreateTime only);
    earlier timestamps are rejected.
message.timestamp.type string CreateTime in=CreateTime|LogAppendTime \
from=log.message.timestamp.type
    Timestamp of a record: the producer's (CreateTime) or the broker's (LogAppendTime).
min.cleanable.dirty.ratio double 0.5 min=0 max=1 from=log.cleaner.min.cleanable.ratio
    Minimum uncleaned share of a log before the cleaner compacts it.
min.compaction.lag.ms long 0 min=0 from=log.cleaner.min.compaction.lag.ms
    Minimum time a record stays uncompacted after it was written.
min.insync.replicas int 1 min=1 from=min.insync.replicas
    Minimum number of in-sync replicas, including the leader, that must have a record before
    acks=all is acknowledged.
preallocate boolean false from=log.preallocate
    Allocates the whole file when a segment is created.
retention.bytes long -1 from=log.retention.bytes
    Size above which the oldest segments of a partition are deleted; -1 means unlimited.
retention.ms long 604800000 min=-1 \
from=log.retention.ms,log.retention.minutes*60000,log.retention.hours*3600000
    Age in milliseconds at which segments are deleted; -1 keeps them forever.
segment.bytes int 1073741824 min=1048576 from=log.segment.bytes
    Size at which a segment is closed and a new one starts.
segment.index.bytes int 10485760 min=4 from=log.index.size.max.bytes
    Maximum size of an index file; the segment rolls when its index is full.
segment.jitter.ms long 0 min=0 from=log.roll.jitter.ms,log.roll.jitter.hours*3600000
    Maximum random time subtracted from segment.ms, so that partitions do not all roll at once.
segment.ms long 604800000 min=1 from=log.roll.ms,log.roll.hours*3600000
    Age in milliseconds at which a segment is closed even if it is not full.
unclean.leader.election.enable boolean false from=unclean.leader.election.enable
    Allows an out-of-sync replica to become leader when no other is left. The partition becomes
    available again, but records are lost.
"""

INERT = """\
local.retention.bytes long -2 min=-2 from=log.local.retention.bytes
    Bytes to keep locally once segments are tiered; -2 uses the value of retention.bytes.
local.retention.ms long -2 min=-2 from=log.local.retention.ms
    Time to keep local segments once they are tiered; -2 uses the value of retention.ms.
remote.log.copy.disable boolean false
    Stops copying the topic to tiered storage.
remote.log.delete.on.disable boolean false
    Deletes tiered data when tiering is turned off.
remote.storage.enable boolean false
    Keeps old segments in tiered storage, which Headrace does not support.
"""
