"""One partition's log on disk, in Apache Kafka's own file formats.

Synchronous code that starts no threads and reads no clock: the broker runs blocking calls in
threads. `Log` says which calls belong to its owner's thread and which may run in another one.
"""
