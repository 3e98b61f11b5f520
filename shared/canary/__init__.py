"""The canary: a client of the stage's own API. Its runs test that a change reaches a receiver as a signed webhook.

runs      a run, from the customer to the webhook
receipts  the webhook on its way from the receiver to the run that waits for it

It has a project of its own (`PROJECT_ID`), in test mode only. Nothing that it uses outlives a run: its API key exists
only during the run, and the signing secret of its endpoint only in the run's memory.
"""
