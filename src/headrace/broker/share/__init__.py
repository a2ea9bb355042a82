"""Share groups on the leader: share partitions, acknowledgements, dead letters."""
