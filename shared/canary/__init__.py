"""The canary: a client of the stage's own API. Its runs test that a change reaches a receiver as a signed webhook.

It has a project of its own (`PROJECT_ID`), in test mode only. Nothing that it uses outlives a run: its API key exists
only during the run, and the signing secret of its endpoint only in the run's memory.
"""
