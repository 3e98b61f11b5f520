"""Tasks: rows with a scheduled step.

tasks     the attributes of such a row, and the claim by which one worker at a time works on it
wake_ups  the queue messages and timers that start workers
batches   what Lambda passes on to a worker: messages of a queue, and records of the table's stream
"""
