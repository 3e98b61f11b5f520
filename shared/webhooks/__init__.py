"""Webhooks: events, the endpoints that receive them, deliveries and manual retries."""
