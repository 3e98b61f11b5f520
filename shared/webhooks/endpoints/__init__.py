"""Webhook endpoints: the receivers of events, and what can be done with one."""
