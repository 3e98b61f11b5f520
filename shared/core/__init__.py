"""The base layer, which needs nothing else of the service.

clock, ids          time, and the ids of resources
settings            what a function is configured by
limits              numbers that several packages need
errors              the errors of the API
call_statuses       the statuses of calls, which carriers, the agent and the sessions have in common
event_types         the types of events, and the kinds of rows whose changes become events
api_description     the revisions of the API, and what pages and builders share about it
log, metrics, trace the log, the metrics in it, and which request or event caused a line or a change
threads             concurrent AWS calls
vendored            the files of npm packages that pages load
"""
