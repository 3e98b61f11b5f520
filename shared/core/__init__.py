"""The base layer, which needs nothing else of the service: the clock, ids, errors, limits, settings, log, metrics."""
