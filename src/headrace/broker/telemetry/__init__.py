"""The receiver of metrics that clients push (KIP-714)."""
