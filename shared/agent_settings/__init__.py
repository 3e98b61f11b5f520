"""The settings of the agent: what it knows of the business, what it may change, and when it may call (promises 11).

resource  the type, the inputs, and the read of the settings
commands  the change of the settings
hours     the arithmetic of opening and calling hours, which are weekly: there are no closed days
policy    which new times of an appointment the agent may agree to
"""
