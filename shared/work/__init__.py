"""Owed work: rows that owe a next step, the hints that start workers, and batches of hints and stream records."""
