"""The state of a log besides its records: producers, epochs, checkpoints, configuration."""
