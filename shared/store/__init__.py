"""The store: the only table, its keys, and projects and modes (`Scope`), to which its rows belong."""
