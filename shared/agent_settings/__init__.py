"""The settings of the agent: what it knows of the business, what it may change, and when it may call (promises 11).

`resource.py` has the type and the inputs, `commands.py` reads and changes the settings, `hours.py` has the arithmetic
of opening and calling hours, and `policy.py` decides about new times of an appointment.
"""
