"""Broker settings: the log on disk."""

TABLE = """\
compression.gzip.level int -1 rule=gzip-level cluster-wide
    Compression level when the broker recompresses with gzip; -1 is the codec's default.
compression.lz4.level int 9 min=1 max=17 cluster-wide
    Compression level when the broker recompresses with lz4.
compression.type string producer in=uncompressed|zstd|lz4|snappy|gzip|producer HIGH cluster-wide
    Codec of stored batches: the name of a codec, or `producer` to keep the producer's codec.
compression.zstd.level int 3 min=-131072 max=22 cluster-wide
    Compression level when the broker recompresses with zstd.
cordoned.log.dirs list "" per-broker
    Log directories that receive no new partitions; existing partitions there are still served.
log.cleaner.backoff.ms long 15000 min=0 cluster-wide
    Pause between two checks for logs to compact.
log.cleaner.dedupe.buffer.size long 134217728 cluster-wide
    Memory in bytes for the map of the latest offset of each key; one key takes 200 bytes.
log.cleaner.delete.retention.ms long 86400000 min=0 cluster-wide
    How long tombstones and transaction markers stay readable in compacted topics.
log.cleaner.enable boolean true
    Runs the log cleaner. Without it, compacted topics such as __consumer_offsets grow without
    limit.
log.cleaner.io.buffer.load.factor double 0.9 cluster-wide
    Share of log.cleaner.dedupe.buffer.size that is used.
log.cleaner.io.buffer.size int 524288 min=0 cluster-wide
    Bytes per read of the cleaner.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 cluster-wide
    Maximum rate of the cleaner's reads and writes together.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 min=1 cluster-wide
    Maximum time a record stays uncompacted after it was written.
log.cleaner.min.cleanable.ratio double 0.5 min=0 max=1 cluster-wide
    Minimum uncleaned share of a log before the cleaner compacts it.
log.cleaner.min.compaction.lag.ms long 0 min=0 cluster-wide
    Minimum time a record stays uncompacted after it was written.
log.cleaner.threads int 1 min=0 cluster-wide
    0 stops the cleaner. Higher values have the same effect as 1: one log is compacted at a
    time.
log.cleanup.policy list delete in=compact|delete cluster-wide
    Cleanup of old segments: `delete` removes them by age and size, `compact` keeps the latest
    value of each key; both may be set.
log.dir list null HIGH
    Log directory, used if log.dirs is not set. If neither is set, the data directory of the
    command line is used.
log.dir.failure.timeout.ms long 30000 min=1 LOW
    How long a broker may fail to report a failed log directory before it stops.
log.dirs list null HIGH
    Log directories, separated by commas.
log.flush.interval.messages long 9223372036854775807 min=1 HIGH cluster-wide
    Maximum number of unflushed records in a partition; 1 flushes before each acknowledgement.
log.flush.interval.ms long null HIGH cluster-wide
    Maximum time before a record is flushed to disk; if unset, log.flush.scheduler.interval.ms
    applies.
log.flush.offset.checkpoint.interval.ms int 60000 min=0 HIGH
    How often recovery points are written; after a crash, only records after them are checked.
log.flush.scheduler.interval.ms long 9223372036854775807 HIGH
    How often the broker checks for logs that are due for a flush.
log.flush.start.offset.checkpoint.interval.ms int 60000 min=0 HIGH
    How often log start offsets are written, so that deleted records stay deleted after a crash.
log.index.interval.bytes int 4096 min=0 cluster-wide
    Bytes of log between two entries of the offset index.
log.index.size.max.bytes int 10485760 min=4 cluster-wide
    Maximum size of an index file; the segment rolls when its index is full.
log.initial.task.delay.ms long 30000 min=0 LOW hidden
    Time from start to the first run of the log's periodic tasks.
log.local.retention.bytes long -2 min=-2 cluster-wide
    Bytes of a partition to keep locally once segments are tiered; -2 uses the value of
    log.retention.bytes.
log.local.retention.ms long -2 min=-2 cluster-wide
    Time to keep local segments once they are tiered; -2 uses the value of log.retention.ms.
log.message.timestamp.after.max.ms long 3600000 min=0 cluster-wide
    Maximum time that a record's timestamp may be ahead of the broker's clock (CreateTime only);
    later timestamps are rejected.
log.message.timestamp.before.max.ms long 9223372036854775807 min=0 cluster-wide
    Maximum time that a record's timestamp may be behind the broker's clock (CreateTime only);
    earlier timestamps are rejected.
log.message.timestamp.type string CreateTime in=CreateTime|LogAppendTime cluster-wide
    Timestamp of a record: the producer's (CreateTime) or the broker's (LogAppendTime).
log.preallocate boolean false cluster-wide
    Allocates the whole file when a segment is created.
log.retention.bytes long -1 HIGH cluster-wide
    Size above which the oldest segments of a partition are deleted; -1 means unlimited.
log.retention.check.interval.ms long 300000 min=1
    How often the broker checks for segments to delete.
log.retention.hours int 168 min=-1 HIGH
    Age in hours at which segments are deleted; log.retention.ms and log.retention.minutes take
    precedence.
log.retention.minutes int null min=-1 HIGH
    Age in minutes at which segments are deleted; log.retention.ms takes precedence.
log.retention.ms long null min=-1 HIGH cluster-wide
    Age in milliseconds at which segments are deleted; -1 keeps them forever.
log.roll.hours int 168 min=1 HIGH
    Age in hours at which a segment is closed even if it is not full; log.roll.ms takes
    precedence.
log.roll.jitter.hours int 0 min=0 HIGH
    Maximum random time subtracted from log.roll.hours; log.roll.jitter.ms takes precedence.
log.roll.jitter.ms long null HIGH cluster-wide
    Maximum random time subtracted from log.roll.ms, so that partitions do not all roll at once.
log.roll.ms long null HIGH cluster-wide
    Age in milliseconds at which a segment is closed even if it is not full.
log.segment.bytes int 1073741824 min=1048576 HIGH cluster-wide
    Size at which a segment is closed and a new one starts.
log.segment.delete.delay.ms long 60000 min=0 HIGH cluster-wide
    How long the files of a deleted segment stay on disk, with the suffix .deleted.
message.max.bytes int 1048588 min=0 HIGH cluster-wide
    Maximum size of a record batch, as it is sent.
num.recovery.threads.per.data.dir int 2 min=1 HIGH cluster-wide
    Logs that are recovered or flushed at the same time in each log directory, at start and at
    shutdown.
num.replica.alter.log.dirs.threads int null HIGH
    Replicas that may move between log directories at the same time; if unset, one per
    directory.
producer.id.expiration.check.interval.ms int 600000 min=1 LOW hidden
    How often the broker checks for expired producer state.
producer.id.expiration.ms int 86400000 min=1 LOW cluster-wide
    Idle time after which a partition discards a producer's sequence numbers.
"""
