"""Share groups (KIP-932) on the leader's side: who has which record, how often, until when.

Pure: a share partition and the sessions of its readers take requests and the time, and say what to
store and whom to answer. The broker reads the log, stores the state and keeps the timers.
"""
