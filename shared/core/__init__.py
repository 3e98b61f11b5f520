"""The base layer, which needs nothing else of the service: clock, ids, errors, limits, settings, log, metrics.

Also the statuses of calls, which carriers, the agent and the sessions have in common.
"""
