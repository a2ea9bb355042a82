"""Share groups (KIP-932) on the leader: the member, delivery count and lock of each record.

Pure: a share partition and its share sessions take requests and the time, and return state to store
and answers. The broker reads the log, stores the state and runs the timers.
"""
