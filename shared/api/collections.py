"""The operations that all collections of resources share."""

from __future__ import annotations

from typing import Any

from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation
from shared.resources.collections import Collection
from shared.resources.lists import Page


def list_operation(collection: Collection[Any, Any], resource: Any) -> Operation:
    """The operation of GET on a collection."""

    def list_resources(request: Request[None]) -> Response:
        """Return a page of resources that match the filters, newest first (specification, "Pagination"; contract 3).

        With a range of `appointment_at`, appointments are ordered by that time, latest first. Deleted resources are
        not included.
        """
        query = collection.query(request.query)
        page = collection.page(request.scope, query, seconds_left=request.seconds_left)
        return responses.ok(page.envelope(request.path))

    return Operation(list_resources, returns=Page[resource], query=collection.parameters)


def retrieve_operation(collection: Collection[Any, Any], resource: Any) -> Operation:
    """The operation of GET on a resource."""

    def retrieve(request: Request[None]) -> Response:
        """Return the resource with the id in the path; an unknown id is 404 `resource_not_found` (contract 1).

        A deleted customer or appointment can still be retrieved.
        """
        return responses.ok(collection.find(request.scope, request.id).json)

    return Operation(retrieve, returns=resource, errors=("resource_not_found",))
