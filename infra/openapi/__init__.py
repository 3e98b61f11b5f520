"""The description of the API in OpenAPI 3.1, generated from what serves the requests.

document      the whole document; `python -m infra.openapi` prints it
operations    an operation from its route: parameters, body, responses with headers
errors        the error codes of an operation, and error responses
schemas       JSON Schema of the resource types and the input models
webhooks      the events as webhooks
links         which operations take the ids of a response
examples      example values by field, and example bodies
text          descriptions from docstrings
values        descriptions of enumerations without docstrings

The document is generated when the bundle is built, and is a file of the function `fallback`. Nothing here runs when a
request is served. The types and routes say everything that they can; what is about HTTP as a whole, such as the headers
of every response, is here.
"""
