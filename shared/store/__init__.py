"""The store: the only table.

table/        reads and writes of rows, their encoding, and conditions
keys          the keys of all rows, and projects and modes (`Scope`), to which rows belong
transactions  the commit of a command's change, which decides again if a row was modified meanwhile
"""
