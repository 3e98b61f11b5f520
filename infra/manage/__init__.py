"""The operator's commands: `python -m infra.manage --help`.

`__main__` finds the command that the arguments name. A command runs on one of the `stages`, and is declared by
`command`. Each other module has the commands of a subject.
"""
