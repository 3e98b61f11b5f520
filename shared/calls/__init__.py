"""Calls to customers, from the request to the files.

commands        what can be done with calls: call a customer, cancel, stop
statuses        the statuses of calls, why calls end, and what comes of them; packages below this one import it, too
sessions        the resource, one for each call, and its steps' writes
project_limits  a project's limits of live calls
capacity        how many live calls the stage has at once
consent/        consent to calls on WhatsApp, and the requests for it
dialing         when a queued call is dialed, and whether it may be
simulated       the steps of a simulated call, and its scripted customer
live/           the steps of a live call, its contacts with the carrier, the customer's words on the phone
dialogue        what the agent knows and says in a call, and what has come of it so far
identity_check  who answers, before the agent speaks of anything
endings         how calls end, and what is free again
opting_out      a person's wish not to be called
transcripts, recordings, wav    the files of a call
"""
