"""The command line for clients of the API: real processes, a real terminal, the local runner."""
