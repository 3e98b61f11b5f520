"""AWS: our own client for the services on the path of requests and workers, and boto3 for the others.

services     the clients, made at first use
client       the client of services with AWS's JSON protocol, and what it repeats
connections, credentials, sigv4    what the client is made of
objects      objects in S3
error_codes  the codes by which code decides
"""
