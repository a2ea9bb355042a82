"""One partition's log on disk, in Apache Kafka's own file formats.

Synchronous code without threads or clocks of its own: the broker runs what may block elsewhere.
`Log` says what belongs to its owner's thread and what may run beside it.
"""
