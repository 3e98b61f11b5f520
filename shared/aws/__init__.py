"""AWS: our own client for the services on the path of requests and workers, and boto3 for the others."""
