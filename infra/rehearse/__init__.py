"""`python -m infra.rehearse --stage NAME`: carries out on AWS, once before going live, what no emulator shows.

Each step does what the runbook describes, on a stage of its own, and says what it saw. `--dry-run` prints the commands,
requests and calls of AWS instead. `steps.py` has the steps, `rehearsal.py` what they act by, `traffic.py` the requests
that go on during a deploy.
"""
