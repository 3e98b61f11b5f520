"""The HTTP layer: request checks, responses and errors, idempotency, routes, and the ASGI app of a route group.

The functions declare their routes and operations with it. It knows none of the resources.
"""
