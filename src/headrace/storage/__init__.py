"""One partition's log on disk, in Apache Kafka's own file formats.

Synchronous code without threads or clocks of its own: the broker runs blocking calls in threads.
`Log` says which calls belong to its owner's thread and which may run in another one.
"""
