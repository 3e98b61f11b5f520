"""The operator's commands: `python -m infra.manage --help`.

`__main__` finds the command that the arguments name. A command runs on one of the `stages`, and is declared by
`command`. Each other module has the commands of a subject:

projects        projects, keys, usage
members         the people who may use the admin pages
agent           the agent's settings, conversations
calls           limits of live calls, consent
customers       export, erasure, search rows, opt-outs. It takes a customer's id: `GET /v1/customers?phone=` finds it
redrive_stream  failed batches of the stream
"""
