"""Access control of a broker: the rule of each API, decisions, the audit log."""
