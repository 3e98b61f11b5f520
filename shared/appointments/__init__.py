"""Appointments.

resource  the type, the inputs, the rows, and which status may follow which
commands  what can be done with an appointment
"""
