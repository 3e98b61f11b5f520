"""The base layer: AWS clients, the table and its keys, ids, the clock, errors, the log, metrics and facts.

It does not depend on customers, calls or webhooks.
"""
