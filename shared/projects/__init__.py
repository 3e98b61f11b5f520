"""Projects, the owners of all resources.

projects     the rows of projects
api_keys     keys, and the check of a request's key, which also counts the request
rate_limits  how many requests a key may send
request_log  the requests of the last day, from the log
usage        live messages and calls by month
"""
