"""The Lambda functions, one module each: the route groups of the API, and the workers."""
