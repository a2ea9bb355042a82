"""Whole brokers on virtual time: a seeded network, disks that lose power, processes that die.

`Simulation` is one run, decided by its seed alone.
"""
