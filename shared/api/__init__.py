"""The HTTP layer, with which functions declare their routes and operations. It knows none of the resources.

routes       paths, operations, and the ASGI app of a function: the checks in their order, and unknown paths
requests     what a request has: its body, its version, its parameters; `Request`, the argument of an operation
responses    what a response has: body, headers, errors
idempotency  the record of a request with an Idempotency-Key
collection_operations    the operations that all collections share: retrieve, list
"""
