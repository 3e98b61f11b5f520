"""The common parts of all resources.

fields       the types of request fields, and their errors
schema       JSON Schema keywords on types, from which the API description is made
documents    the public form of a resource, and changes to one
collections  the rows of a resource type, and the usual access to them
indexes      the attributes by which a row is in the table's indexes
search       the rows by which resources are found by words or digits
filters, queries, list_pages    lists: filters, parameters and cursors, and the reading of pages
"""
