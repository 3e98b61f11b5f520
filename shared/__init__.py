"""The service's domain, one package per subject. The import contracts in pyproject.toml define their order."""
