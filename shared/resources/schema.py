"""JSON Schema keywords on the types of requests and responses, from which the API description is generated.

    phone: Annotated[str, Keywords(pattern="…", code="phone_invalid_format")]

The keywords say what the validators accept and what responses contain. They validate nothing themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from shared.core import ids

CODE = "x-error-code"
"""The keyword that names the error of an invalid value. `infra/openapi` removes it."""
NAME = "x-name"
"""The keyword with the name of a schema. `infra/openapi` removes it."""
TEXT = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$"
"""A string whose only control characters are tab and newlines."""

PHONE_PATTERN = r"^ *\+[1-9](?:[ .()-]*[0-9]){6,14} *$"
"""A phone number in a request. It may have spaces around it, and separators between its digits (promises 0)."""


class Keywords:
    """JSON Schema keywords of an annotated type.

    `code` is the error code of an invalid value in a request. A type with a `name` is described once, under this name.
    """

    def __init__(self, code: str | None = None, name: str | None = None, **keywords: Any) -> None:
        own = {CODE: code, NAME: name}
        self.keywords = keywords | {keyword: value for keyword, value in own.items() if value is not None}

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> Any:
        """Add the keywords to the schema that pydantic generates for a field of a request."""
        return handler(core_schema) | self.keywords


def one_of(values: Sequence[str], name: str | None = None) -> Keywords:
    """One of these values."""
    return Keywords(name=name, enum=[*values])


def at_most(characters: int) -> Keywords:
    """A string of at most `characters` characters."""
    return Keywords(maxLength=characters)


def id_of(prefix: str) -> Keywords:
    """An id with this prefix."""
    return Keywords(code="resource_not_found", pattern=f"^{prefix}{ids.AFTER_PREFIX}$")


CustomerId = Annotated[str, id_of("cust_")]
AppointmentId = Annotated[str, id_of("appt_")]
SessionId = Annotated[str, id_of("sess_")]
ConversationId = Annotated[str, id_of("conv_")]
MessageId = Annotated[str, id_of("msg_")]
WebhookEndpointId = Annotated[str, id_of("whk_")]
EventId = Annotated[str, id_of("evt_")]
DeliveryId = Annotated[str, id_of("whd_")]
RequestId = Annotated[str, id_of("req_")]

Time = Annotated[str, Keywords(format="date-time")]
"""UTC with milliseconds (promises 1). PHP's generated client would compare a pattern with a `DateTime`."""
E164 = Annotated[str, Keywords(pattern=r"^\+[1-9][0-9]{6,14}$")]
"""A phone number in a response."""
Metadata = Annotated[dict[str, Any], Keywords(name="Metadata", additionalProperties=True, maxProperties=50)]
"""The caller's own keys and values, in a response."""
Count = Annotated[int, Keywords(minimum=0)]
UnixTime = Annotated[int, Keywords(format="int64")]
"""Without the format, generated clients take 32 bits, which end in 2038."""
