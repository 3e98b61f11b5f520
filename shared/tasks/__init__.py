"""Tasks: rows with a scheduled step, the wake-up messages that start workers, and batches of messages and records."""
