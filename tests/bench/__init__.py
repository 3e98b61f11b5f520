"""`make bench`: what requests, deliveries and the local runner cost (README.md beside this file).

__main__          measures and prints the tables
requests          requests: this service, the usual way to build it, and a bare boto3 call as the unit
deliveries        delivery attempts, beside a POST of bare aiohttp
lists             lists with several filters, in the worst case
runner            the local runner: requests and deliveries a second
soak              `make soak`: whether the runner grows, is late or loses anything under an hour of mixed load
samples           the processes that are measured, and their samples
subjects          what is measured of requests, and the loop of every such process
usual             the usual way: Starlette, Mangum, Powertools, boto3's resource, pydantic
canned_dynamodb   a process that answers like DynamoDB over TLS, at once or after some milliseconds
"""
