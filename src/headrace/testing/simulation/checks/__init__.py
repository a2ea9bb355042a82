"""The invariants that a simulated cluster must hold, and what they are checked against."""
