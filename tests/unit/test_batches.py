from __future__ import annotations

from typing import Any

from shared.work import batches


def record(number: str) -> dict[str, Any]:
    return {"eventID": number, "eventSource": "aws:dynamodb", "dynamodb": {"SequenceNumber": number}}


def message(id: str) -> dict[str, Any]:
    return {"messageId": id, "eventSource": "aws:sqs", "body": id, "attributes": {}}


def test_each_item_is_worked_on_in_order_and_those_that_went_well_are_not_given_again() -> None:
    seen: list[str] = []
    records = {"Records": [record("1"), record("2")]}
    messages = {"Records": [message("a"), message("b")]}

    assert batches.each_record(records, None, lambda item: seen.append(item.event_id)) == {"batchItemFailures": []}
    assert batches.each_message(messages, None, lambda item: seen.append(item.body)) == {"batchItemFailures": []}
    assert seen == ["1", "2", "a", "b"]


def test_what_failed_is_named_and_nothing_else() -> None:
    def work(item: Any) -> None:
        if item.body == "b":
            raise ValueError(item.body)

    answer = batches.each_message({"Records": [message("a"), message("b"), message("c")]}, None, work)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "b"}]}
