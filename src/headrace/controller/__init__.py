"""The controller: fencing, elections, ISR, topic and config changes, reassignment."""
