"""The command line for clients of the API. It speaks HTTP only, and is a distribution of its own (`pyproject.toml`).

main           the command `appt`, and how it ends
command        what all commands share: settings, help with examples, typed values
profiles       which service and key; `login`, `logout`, `whoami`, `open`
api            requests with retries, pages, errors
output         tables, JSON, errors
description    the API description, cached, and what commands need of it
resources      `customers list` and the like, from the description
raw            `get`, `post`, `patch`, `delete`
events         `listen`, `events resend`, `deliveries`, `resend`
listener       events to a receiver on this machine
signing        secrets and signatures; `verify`
trigger        causes an event in test mode
agent          `call` and `chat`
"""
