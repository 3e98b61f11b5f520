"""The operations that all collections of resources share."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, TypeVar

from shared.api import responses
from shared.api.requests import Request
from shared.api.responses import Response
from shared.api.routes import Operation
from shared.core.errors import Code
from shared.resources import list_pages, queries
from shared.resources.collections import Collection
from shared.resources.queries import Page

D = TypeVar("D", bound=Mapping[str, Any])


def list_operation(collection: Collection[D, Any]) -> Operation:
    """The operation of GET on a collection."""
    nouns = collection.kind.replace("_", " ") + "s"

    def list_resources(request: Request[None]) -> Response[Page[D]]:
        query = queries.parse(collection, request.query)
        page = list_pages.read(request.scope, collection, query, seconds_left=request.seconds_left)
        return responses.page(page, request.path)

    # What clients read in the API description.
    time = collection.indexes.time_field
    order = f" With a range of `{time}`, by that time, latest first." if time else ""
    deleted = f" Deleted {nouns} are not included." if collection.keeps_deleted else ""
    filters = " Filters are combined with AND." if collection.parameters.filters else ""
    list_resources.__doc__ = f"List {nouns}.\n\nNewest first.{order}{filters}{deleted}"
    page_type = GenericAlias(Page, (collection.document,))
    return Operation(list_resources, name=f"list_{collection.kind}s", lists=collection, response_type=page_type)


def retrieve_operation(collection: Collection[D, Any]) -> Operation:
    """The operation of GET on a resource."""
    noun = collection.kind.replace("_", " ")

    def retrieve(request: Request[None]) -> Response[D]:
        return responses.stored(request.find(collection))

    deleted = f" A deleted {noun} can still be retrieved." if collection.keeps_deleted else ""
    article = "an" if noun[0] in "aeiou" else "a"
    retrieve.__doc__ = f"Retrieve {article} {noun}.\n\nReturns the {noun} with this id.{deleted}"
    return Operation(
        retrieve,
        name=f"retrieve_{collection.kind}",
        reads=collection,
        errors=(Code.RESOURCE_NOT_FOUND,),
        response_type=collection.document,
    )
