"""Projects, their API keys and rate limits, and what they used."""
