"""HTTP: requests and their checks, responses and errors, idempotency, routes, and the ASGI app of a route group.

Nothing here knows of conversations or calls: functions declare their routes and endpoints with it.
"""
