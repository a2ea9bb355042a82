"""The server's side of SASL exchanges: tokens in, outcomes out. Pure.

`exchange` has the outcomes that every mechanism returns. A mechanism gets credentials, time and
randomness as arguments, and never raises for anything that a client sends.
"""
