"""Live calls, which a carrier places."""
