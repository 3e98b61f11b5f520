"""The usual way to build such an API, as tutorials and starter projects show it, with the same calls of DynamoDB.

Starlette with two middleware classes, Mangum, Powertools' Logger, boto3's resource, and pydantic models.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from boto3.dynamodb.conditions import Attr, Key
from mangum import Mangum
from pydantic import BaseModel, EmailStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

logger = Logger(service="customers")
table: Any = boto3.resource("dynamodb").Table(os.environ["TABLE_NAME"])


class CustomerIn(BaseModel):
    """A new customer."""

    phone: str
    name: str | None = None
    email: EmailStr | None = None
    external_id: str | None = None
    metadata: dict[str, Any] = {}


class CustomerPatch(BaseModel):
    """A change of a customer."""

    phone: str | None = None
    name: str | None = None
    email: EmailStr | None = None
    external_id: str | None = None
    metadata: dict[str, Any] | None = None


class Customer(CustomerIn):
    """A customer."""

    id: str
    object: str = "customer"
    livemode: bool
    created_at: str
    updated_at: str
    deleted_at: str | None = None


class Logging(BaseHTTPMiddleware):
    """Gives each request an id and logs it."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Serve one request."""
        started, request.state.id = time.perf_counter(), f"req_{uuid.uuid4().hex}"
        response = await call_next(request)
        response.headers["Service-Request-Id"] = request.state.id
        duration = round((time.perf_counter() - started) * 1000, 1)
        logger.info("request", extra={"path": request.url.path, "status": response.status_code, "ms": duration})
        return response


class Authentication(BaseHTTPMiddleware):
    """Counts the request in the key's row, which also says whose key it is."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Serve one request."""
        digest = hashlib.sha256(request.headers["authorization"].removeprefix("Bearer ").encode()).hexdigest()
        minute = int(time.time()) // 60
        row = table.update_item(
            Key={"pk": f"KEY#{digest}", "sk": "key"},
            UpdateExpression="SET w.n = w.n + :one",
            ConditionExpression="attribute_exists(pk) AND m = :m AND w.n < :most",
            ExpressionAttributeValues={":one": 1, ":m": minute, ":most": 5000},
            ReturnValues="ALL_NEW",
        )["Attributes"]
        request.state.scope = f"P#{row['project_id']}#test"
        return await call_next(request)


def _read_customer(request: Request) -> Customer:
    key = {"pk": f"{request.state.scope}#customer", "sk": request.path_params["id"]}
    return Customer.model_validate_json(table.get_item(Key=key, ConsistentRead=True)["Item"]["doc"])


async def retrieve(request: Request) -> Response:
    """Return a customer."""
    return JSONResponse(_read_customer(request).model_dump())


async def create(request: Request) -> Response:
    """Create a customer."""
    body = CustomerIn.model_validate(await request.json())
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    made = Customer(id=f"cust_{uuid.uuid4().hex}", livemode=False, created_at=now, updated_at=now, **body.model_dump())
    row = {"pk": f"{request.state.scope}#customer", "sk": made.id, "kind": "customer", "v": 1}
    row |= {
        name: f"{request.state.scope}#{name}#{value}" for name, value in body.model_dump(exclude={"metadata"}).items()
    }
    table.put_item(Item=row | {"doc": made.model_dump_json()}, ConditionExpression=Attr("pk").not_exists())
    return JSONResponse(made.model_dump(), 201)


async def update(request: Request) -> Response:
    """Change a customer."""
    body = CustomerPatch.model_validate(await request.json())
    changed = _read_customer(request).model_copy(update=body.model_dump(exclude_unset=True))
    table.update_item(
        Key={"pk": f"{request.state.scope}#customer", "sk": changed.id},
        UpdateExpression="SET doc = :doc, v = :next",
        ConditionExpression=Attr("v").eq(1),
        ExpressionAttributeValues={":doc": changed.model_dump_json(), ":next": 2},
    )
    return JSONResponse(changed.model_dump())


async def list_customers(request: Request) -> Response:
    """Return a page of customers."""
    limit = int(request.query_params.get("limit", "20"))
    items = table.query(
        KeyConditionExpression=Key("pk").eq(f"{request.state.scope}#customer"),
        ScanIndexForward=False,
        ConsistentRead=True,
        Limit=limit + 1,
    )["Items"]
    page = [Customer.model_validate_json(item["doc"]).model_dump() for item in items[:limit]]
    return JSONResponse({"object": "list", "data": page, "has_more": len(items) > limit})


app = Starlette(
    routes=[
        Route("/v1/customers", list_customers),
        Route("/v1/customers", create, methods=["POST"]),
        Route("/v1/customers/{id}", retrieve),
        Route("/v1/customers/{id}", update, methods=["PATCH"]),
    ],
    middleware=[Middleware(Logging), Middleware(Authentication)],
)
handler = Mangum(app)
