"""Endpoints that every collection of resources has in common."""

from __future__ import annotations

from typing import Any

from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Endpoint
from shared.resources.collections import Collection
from shared.resources.lists import Page


def list_endpoint(collection: Collection[Any, Any], resource: Any) -> Endpoint:
    """GET on a collection: a page of its resources."""

    def list_resources(request: Request[None]) -> Response:
        """Return a page of resources, newest first (specification, "Pagination"; contract 3)."""
        query = collection.query(request.query)
        page = collection.page(request.scope, query, seconds_left=request.seconds_left)
        return responses.ok(page.envelope(request.path))

    return Endpoint(list_resources, returns=Page[resource], query=collection.parameters)


def retrieve_endpoint(collection: Collection[Any, Any], resource: Any) -> Endpoint:
    """GET on a resource."""

    def retrieve(request: Request[None]) -> Response:
        """Return the resource with the id in the path (contract 1)."""
        return responses.ok(collection.find(request.scope, request.id).json)

    return Endpoint(retrieve, returns=resource, errors=("resource_not_found",))
