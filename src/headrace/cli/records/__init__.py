"""`headrace produce`, `headrace consume` and `headrace dlq`."""
