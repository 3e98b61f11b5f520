"""Calls to customers, from the request to the files.

sessions        the resource, one for each call, and which status may follow which
commands        the request for a call
dialing         when a queued call is dialed, and whether it may be
endings         how a call ends, and what is free again
opt_outs        what it means that a person is not to be called
project_limits  a project's limits of live calls
capacity        how many live calls the stage has at once
consent/        consent to calls on WhatsApp, and the requests for it
simulated       the steps of a simulated call, and its scripted customer
simulated_numbers    test mode's phone numbers, which reach nobody: each stands for the outcome of a call
live/           the steps of a live call, its contacts with the carrier, the customer's words on the phone
dialogue        what the agent knows and says in a call, and what has come of it so far
identity_check  who answers, before the agent speaks of anything
transcripts, recordings, wav    the files of a call
"""
