"""Deliveries: the sending of one event to one endpoint (promises 9).

resource  the type, the rows, and reads of them
commands  what a person can do: retry a delivery, send it now, send a test event
"""
