"""One module for each Lambda function: the route groups of the API, and the workers."""
