"""Calls to customers, from the request to the files.

commands        what can be done with calls: call a customer, cancel, stop
sessions        the resource, one for each call
project_limits  a project's limits of live calls
capacity        how many live calls the stage has at once
consent/        consent to calls on WhatsApp, and the requests for it
transitions     how a call moves on: when it is dialed, whether it may be, how it ends, and what is free again
simulated       the steps of a simulated call, and its scripted customer
simulated_numbers    test mode's phone numbers, which reach nobody: each stands for the outcome of a call
live/           the steps of a live call, its contacts with the carrier, the customer's words on the phone
dialogue        what the agent knows and says in a call, and what has come of it so far
identity_check  who answers, before the agent speaks of anything
opting_out      a person's wish not to be called
transcripts, recordings, wav    the files of a call
"""
