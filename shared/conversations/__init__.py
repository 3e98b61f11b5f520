"""Conversations: threads, messages, whom they are with, and the turns in which the agent answers."""
