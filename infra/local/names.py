"""Names and ARNs in the form that the CDK, CloudFormation and AWS generate.

Code that uses a name of the topology as a resource's physical name fails here as it does on a deployed stage. Names are
the same at each start, as a stack's are at each deployment.
"""

from __future__ import annotations

import hashlib
import string

from infra.stack_names import construct_id, stack_name

REGION = "us-east-1"
ACCOUNT = "123456789012"
STACK = stack_name("local")
_RESOURCE = "Resource"
"""The CDK's id of the resource inside a construct."""
_UPPER = string.digits + string.ascii_uppercase
_LOWER = string.digits + string.ascii_lowercase
_MIXED = _LOWER + string.ascii_uppercase


def table() -> str:
    """The table's name: `appointments-local-TableCD117FA1-` and thirteen capital letters and digits."""
    return _physical("Table", _UPPER, 13)


def bucket(id: str) -> str:
    """A bucket's name, in lower case."""
    return _physical(id, _LOWER, 12).lower()


def queue(name: str, fifo: bool) -> str:
    """The physical name of a queue of the topology."""
    return _physical(f"{construct_id(name)}Queue", _MIXED, 12) + (".fifo" if fifo else "")


def dead_letters(name: str, fifo: bool) -> str:
    """The physical name of the dead-letter queue of a queue of the topology."""
    return _physical(f"{construct_id(name)}DeadLetters", _MIXED, 12) + (".fifo" if fifo else "")


def state_machine(name: str) -> str:
    """A state machine's name. Unlike other names, it does not contain the stack's."""
    return _physical(construct_id(name), _MIXED, 12).removeprefix(f"{STACK}-")


def function(name: str) -> str:
    """The physical name of a function of the topology."""
    return _physical(construct_id(name), _MIXED, 12)


def schedule(name: str) -> str:
    """The EventBridge rule that runs a function of the topology on its schedule."""
    return _physical(f"{construct_id(name)}Schedule", _MIXED, 12)


def role(name: str) -> str:
    """The IAM role of a construct."""
    return _physical(f"{name}Role", _MIXED, 12)


def rest_api() -> str:
    """The REST API's id."""
    return _random("Api", _LOWER, 10)


def arn(service: str, resource: str) -> str:
    """An ARN in the stage's region and account. `resource` is such as `function:NAME` or `table/NAME`."""
    region = "" if service == "iam" else REGION
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{resource}"


def in_region(arn_there: str) -> str:
    """The ARN with the stage's region and account. DynamoDB Local uses its own."""
    _, _, service, _, _, resource = arn_there.split(":", 5)
    return arn(service, resource)


def queue_url(name: str) -> str:
    """The URL of a queue, from its physical name. Clients send it as a parameter to the configured endpoint."""
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"


def _physical(id: str, alphabet: str, length: int) -> str:
    """CloudFormation's name for the resource of a construct: stack, logical id, random characters."""
    # The CDK makes logical ids unique by a hash of the construct's path.
    path = hashlib.md5(f"{id}/{_RESOURCE}".encode(), usedforsecurity=False).hexdigest()
    logical_id = id + path[:8].upper()
    return f"{STACK}-{logical_id}-{_random(logical_id, alphabet, length)}"


def _random(seed: str, alphabet: str, length: int) -> str:
    digest = hashlib.sha256(seed.encode()).digest()
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])
