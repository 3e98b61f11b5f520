"""Customers: people to be contacted by phone.

resource          the type, the inputs and the rows
commands          what can be done with a customer
opted_out_phones  phones whose owners do not want to be called or written to, with or without a customer
"""
