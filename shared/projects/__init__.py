"""Projects, their API keys, rate limits and usage."""
