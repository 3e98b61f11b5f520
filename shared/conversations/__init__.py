"""Conversations: threads, their messages and customers, and the turns in which the agent replies."""
