"""The broker's counters, and the collectors that read its state for `/metrics`."""
