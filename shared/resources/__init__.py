"""The common parts of all resources: fields, documents, indexes, collections, lists, and the reading of pages."""
