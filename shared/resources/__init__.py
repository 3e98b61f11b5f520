"""The common parts of all resources: fields, documents, collections, lists, and the reading of pages."""
