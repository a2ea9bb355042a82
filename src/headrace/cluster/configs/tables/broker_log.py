"""Broker settings: the log on disk."""

TABLE = """\
compression.gzip.level int -1 rule=gzip-level cluster-wide
    Level for topics that the broker recompresses with gzip; -1 is the codec's own default.
compression.lz4.level int 9 min=1 max=17 cluster-wide
    Level for topics that the broker recompresses with lz4.
compression.type string producer in=uncompressed|zstd|lz4|snappy|gzip|producer HIGH cluster-wide
    Codec in which batches are stored: one codec's name, or `producer` to keep what the
    producer sent.
compression.zstd.level int 3 min=-131072 max=22 cluster-wide
    Level for topics that the broker recompresses with zstd.
cordoned.log.dirs list "" per-broker
    Data directories that receive no new partitions; what they hold stays served.
log.cleaner.backoff.ms long 15000 min=0 cluster-wide
    Pause of the cleaner between two looks for logs to clean.
log.cleaner.dedupe.buffer.size long 134217728 cluster-wide
    Memory in bytes for the map of the latest offset of each key; a key takes 200.
log.cleaner.delete.retention.ms long 86400000 min=0 cluster-wide
    How long tombstones and transaction markers stay readable in compacted topics.
log.cleaner.enable boolean true
    Runs the cleaner; compacted topics, __consumer_offsets among them, grow without end when
    it is off.
log.cleaner.io.buffer.load.factor double 0.9 cluster-wide
    How much of log.cleaner.dedupe.buffer.size is used.
log.cleaner.io.buffer.size int 524288 min=0 cluster-wide
    Bytes that the cleaner reads at once.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 cluster-wide
    Upper bound of the cleaner's reads and writes together.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 min=1 cluster-wide
    A record is compacted at the latest this long after it was written.
log.cleaner.min.cleanable.ratio double 0.5 min=0 max=1 cluster-wide
    Share of a log that must be uncleaned before the cleaner takes it.
log.cleaner.min.compaction.lag.ms long 0 min=0 cluster-wide
    A record stays uncompacted for at least this long.
log.cleaner.threads int 1 min=0 cluster-wide
    With 0 nothing is cleaned; more than 1 are as good as 1: one log is cleaned at a time.
log.cleanup.policy list delete in=compact|delete cluster-wide
    What happens to old segments: `delete` by age and size, `compact` to the latest value of
    each key, or both.
log.dir list null HIGH
    The data directory, when log.dirs is not set; without both, the folder that the command
    line gives.
log.dir.failure.timeout.ms long 30000 min=1 LOW
    How long a broker may fail to report a lost data directory before it stops.
log.dirs list null HIGH
    Directories that hold the partitions, separated by commas.
log.flush.interval.messages long 9223372036854775807 min=1 HIGH cluster-wide
    Records that may gather in a partition before it is forced to disk; 1 flushes before
    each acknowledgement.
log.flush.interval.ms long null HIGH cluster-wide
    Longest time a record waits to be forced to disk; unset, log.flush.scheduler.interval.ms
    decides.
log.flush.offset.checkpoint.interval.ms int 60000 min=0 HIGH
    How often recovery points are written; after a crash only what lies above them is
    checked.
log.flush.scheduler.interval.ms long 9223372036854775807 HIGH
    How often the flusher looks for logs whose time to flush has come.
log.flush.start.offset.checkpoint.interval.ms int 60000 min=0 HIGH
    How often log start offsets are written, so that deleted records stay deleted after a
    crash.
log.index.interval.bytes int 4096 min=0 cluster-wide
    Bytes of log between two entries of the offset index.
log.index.size.max.bytes int 10485760 min=4 cluster-wide
    Largest size of an index file; a segment is rolled when its index is full.
log.initial.task.delay.ms long 30000 min=0 LOW hidden
    Time from start to the first run of the log's background work.
log.local.retention.bytes long -2 min=-2 cluster-wide
    Bytes of a partition to keep locally once tiered; -2 means the value of
    log.retention.bytes.
log.local.retention.ms long -2 min=-2 cluster-wide
    Time to keep local segments once tiered; -2 means the value of log.retention.ms.
log.message.timestamp.after.max.ms long 3600000 min=0 cluster-wide
    How far a record's timestamp may lie in the broker's future before it is refused
    (CreateTime only).
log.message.timestamp.before.max.ms long 9223372036854775807 min=0 cluster-wide
    How far a record's timestamp may lie in the broker's past before it is refused
    (CreateTime only).
log.message.timestamp.type string CreateTime in=CreateTime|LogAppendTime cluster-wide
    Whose time a record carries: the producer's (CreateTime) or the broker's
    (LogAppendTime).
log.preallocate boolean false cluster-wide
    Reserves the whole file when a segment is created.
log.retention.bytes long -1 HIGH cluster-wide
    Size at which a partition's oldest segments are deleted; -1 is no limit.
log.retention.check.interval.ms long 300000 min=1
    How often segments are looked over for deletion.
log.retention.hours int 168 min=-1 HIGH
    Hours after which segments are deleted; log.retention.ms and log.retention.minutes come
    first.
log.retention.minutes int null min=-1 HIGH
    Minutes after which segments are deleted; log.retention.ms comes first.
log.retention.ms long null min=-1 HIGH cluster-wide
    Milliseconds after which segments are deleted; -1 keeps them for ever.
log.roll.hours int 168 min=1 HIGH
    Hours after which a segment is closed even if it is not full; log.roll.ms comes first.
log.roll.jitter.hours int 0 min=0 HIGH
    Random part that is taken off log.roll.hours; log.roll.jitter.ms comes first.
log.roll.jitter.ms long null HIGH cluster-wide
    Random part that is taken off log.roll.ms, so that not all partitions roll at once.
log.roll.ms long null HIGH cluster-wide
    Milliseconds after which a segment is closed even if it is not full.
log.segment.bytes int 1073741824 min=1048576 HIGH cluster-wide
    Size at which a segment is closed and the next one begun.
log.segment.delete.delay.ms long 60000 min=0 HIGH cluster-wide
    How long a deleted segment's files stay on disk under a name ending in .deleted.
message.max.bytes int 1048588 min=0 HIGH cluster-wide
    Largest record batch, as it is sent, that a topic accepts.
num.recovery.threads.per.data.dir int 2 min=1 HIGH cluster-wide
    Logs that are recovered and flushed at the same time in each data directory, at start
    and stop.
num.replica.alter.log.dirs.threads int null HIGH
    Replicas that move between data directories at the same time.
producer.id.expiration.check.interval.ms int 600000 min=1 LOW hidden
    How often idle producers' state is looked over for removal.
producer.id.expiration.ms int 86400000 min=1 LOW cluster-wide
    Idle time after which a partition forgets a producer's sequence numbers.
"""
