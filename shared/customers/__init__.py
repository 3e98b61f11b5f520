"""Customers: people to be contacted by phone."""
