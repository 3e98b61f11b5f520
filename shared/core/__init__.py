"""The base layer, which depends on nothing else of the service: the clock, ids, errors, limits, the log and metrics."""
