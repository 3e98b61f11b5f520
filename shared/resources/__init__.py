"""What all resources have in common: fields, documents, collections, lists and how their pages are read."""
