"""`make bench`: what a request costs, ours beside the usual way to build it, and a bare boto3 call as the unit.

canned_dynamodb   a process that answers like DynamoDB over TLS, at once or after some milliseconds
subjects          what is measured: `ours`, `usual` and `bare`
usual             the usual way: Starlette, Mangum, Powertools, boto3's resource, pydantic
__main__          runs the subjects in turn and prints the tables
"""
