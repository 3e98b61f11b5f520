"""Webhooks: events, the endpoints that receive them, and deliveries with their attempts and retries."""
