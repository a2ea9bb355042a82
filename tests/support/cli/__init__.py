"""The command line and terminals."""
