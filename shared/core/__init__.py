"""What everything stands on: AWS clients, the table and its keys, ids, the clock, errors, the log, metrics, and facts.

Nothing here knows of customers, calls or webhooks.
"""
