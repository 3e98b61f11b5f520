"""The service's domain, one package a subject; each imports only those below it (import contracts, pyproject.toml)."""
