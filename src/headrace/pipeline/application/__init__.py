"""A whole pipeline: validation, running all flows, history, metrics and reset."""
