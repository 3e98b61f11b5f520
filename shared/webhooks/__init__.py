"""Webhooks: events, the endpoints that receive them, and deliveries from the first attempt to the last."""
