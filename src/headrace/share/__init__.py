"""Share groups (KIP-932) on the leader: the member, delivery count and lock of each record.

Pure: a share partition and its share sessions take requests and the time, and return what to store
and what to answer. The broker reads the log, stores the state and runs the timers.
"""
