"""Random faults on a real cluster under load, and a verdict on what its clients saw."""
