"""Deliveries: the sending of one event to one endpoint (promises 9)."""
