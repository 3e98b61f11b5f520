"""The base layer, which depends on nothing else of the service: the clock, ids, errors, the log, metrics and facts."""
