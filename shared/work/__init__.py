"""Work: rows that owe a next step, the hints that tell workers of it, and batches of hints and stream records."""
