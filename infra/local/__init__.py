"""The service on one machine: `make run`, or `python -m infra.local` once everything is installed.

runner      starts all parts, waits for a signal, and stops them (`__main__` is the command)
settings    PORT, DATA_DIR, SPEED, READY_FILE, CANARY
data_dir    the folder of everything that is kept between runs
sqs         the queues, served over HTTP by `sqs_endpoint`
backend     a child process: DynamoDB Local (`database`) and moto (`emulator`, with its S3 in `objects`)
names       names and ARNs in the form that CloudFormation generates
resources   creates the topology's table, queues, state machines and bucket
lambdas     the functions' handlers, called in this process
server      HTTP on loopback, by API Gateway's rules (`routes`, `proxy`)
queues stream schedule  the event sources of the worker functions
demo        the two demo projects
console     messages to the person who started the runner
log_lines   the subscription of the log, for the request log
processes   child processes, which end with the runner
"""
