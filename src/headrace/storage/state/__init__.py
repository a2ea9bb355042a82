"""What a log knows beside its records: producers, epochs, checkpoints, configuration."""
