"""Erasure: removing a person for good.

erasing         the erasure of one customer, step by step
runs            erasing several customers, and waiting for what must end first
ledger          who was erased and which phones opted out, kept outside of the table, for a table that is restored
stored_batches  changes that `fan_out` could not process, which contain whole rows
access          what is kept about a person, for their request of access
"""
