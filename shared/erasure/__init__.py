"""Erasure: removing a person for good, stored copies of changes included, and the ledger that lets it be repeated."""
