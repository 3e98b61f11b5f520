"""Promise 1.5: 100 requests a second for each key, exactly."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.client import RATE_LIMIT_POLICY, Client, Response, assert_error

THREADS = 16

pytestmark = pytest.mark.parallel


def hammer(client: Client, seconds: float, longest: float, **request: dict[str, str]) -> list[Response]:
    """Pings from many threads for some seconds, longer while no request has been refused.

    It begins with a second of which nothing has been used yet.
    """
    answers: list[Response] = []
    time.sleep(1.02 - time.time() % 1)
    start = time.monotonic()
    refused = threading.Event()

    def run() -> None:
        while (passed := time.monotonic() - start) < seconds or (passed < longest and not refused.is_set()):
            response = client.get("/v1/ping", patient=False, **request)
            answers.append(response)
            if response.status == 429:
                refused.set()

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def remaining_requests(response: Response) -> tuple[str, int, int]:
    match = re.fullmatch(r'"(second|minute)";r=(\d+);t=(\d+)', response.headers["RateLimit"])
    assert match, response.headers["RateLimit"]
    return match[1], int(match[2]), int(match[3])


def test_a_key_gets_exactly_100_requests_in_a_second(other_live: Client) -> None:
    started = int(time.time()) + 1
    answers = hammer(other_live, seconds=3, longest=90)
    windows = int(time.time()) - started + 1
    passed = [response for response in answers if response.status == 200]
    refused = [response for response in answers if response.status == 429]
    assert len(passed) + len(refused) == len(answers)
    assert refused, f"only {len(answers)} requests in {windows} seconds: too slow to meet the limit"
    assert len(passed) <= 100 * windows
    # Each window counts down from 99, every number once: a number seen more often than the one above it,
    # or more often than there were windows, was given out twice.
    counts = Counter(
        remaining_requests(response)[1] for response in passed if remaining_requests(response)[0] == "second"
    )
    assert counts.total() == len(passed)
    assert max(counts.values()) <= windows
    assert max(counts) == 99
    for number in range(99):
        assert counts[number] <= counts[number + 1], f"{number} was left more often than {number + 1}"
    # Refusals come only when a window is used up, so at least one was, to its last request.
    assert counts[0] >= 1


def test_a_refused_request_tells_when_to_come_back(other_live: Client) -> None:
    refused = next(response for response in hammer(other_live, 1, 90) if response.status == 429)
    error = assert_error(refused, 429, "rate_limit_exceeded")
    assert error["type"] == "rate_limit_error"
    assert re.fullmatch(r"[1-9]\d*", refused.headers["Retry-After"])
    assert refused.headers["Service-Rate-Limited-Reason"] == "second"
    assert refused.headers["Service-Should-Retry"] == "true"
    assert refused.headers["RateLimit-Policy"] == RATE_LIMIT_POLICY
    window, remaining, _ = remaining_requests(refused)
    assert (window, remaining) == ("second", 0)
    time.sleep(int(refused.headers["Retry-After"]))
    other_live.get("/v1/ping", patient=False).ok()


@pytest.mark.runner("a deployed stage has another agent and its own share")
def test_a_project_may_have_fifty_live_messages_under_way(live: Client) -> None:
    def send(number: int) -> Response:
        body = {"external_conversation_id": f"share {number}", "content": "[[sim:timeout]]"}
        return live.post("/v1/messages", body, patient=False)

    # The replies come after seven seconds: nearly all messages are under way at once.
    with ThreadPoolExecutor(70) as pool:
        answers = list(pool.map(send, range(70)))
    refused = [answer for answer in answers if answer.status == 429]
    stored = [answer for answer in answers if answer.status == 504]
    assert len(stored) + len(refused) == len(answers)
    assert len(stored) >= 50
    assert refused
    for answer in refused:
        error = assert_error(answer, 429, "rate_limit_exceeded")
        assert error["type"] == "rate_limit_error"
        assert answer.headers["Service-Rate-Limited-Reason"] == "messages"
        assert answer.headers["Service-Should-Retry"] == "true"
    # A client that waits as it is told gets through.
    live.post("/v1/messages", {"external_conversation_id": "share", "content": "Hello"}).ok(201)


def test_the_limit_is_checked_before_the_rest_of_the_request(other_live: Client) -> None:
    answers = hammer(other_live, 1, 90, headers={"Service-Version": "1999-01-01"})
    for response in answers:
        if response.status == 429:
            assert_error(response, 429, "rate_limit_exceeded")
        else:
            assert_error(response, 400, "api_version_invalid")
    assert any(response.status == 429 for response in answers)


def test_one_key_at_its_limit_leaves_the_others_alone(client: Client, other_live: Client) -> None:
    done = threading.Event()
    seen: list[int] = []

    def ask() -> None:
        while not done.wait(0.05):
            seen.append(client.get("/v1/ping", patient=False).status)

    # The second that the tests before this one have used up may still run.
    time.sleep(1)
    thread = threading.Thread(target=ask)
    thread.start()
    answers = hammer(other_live, 1.5, 90)
    done.set()
    thread.join()
    assert any(response.status == 429 for response in answers)
    assert seen
    assert set(seen) == {200}


def test_what_is_left_counts_down_and_comes_back(client: Client) -> None:
    time.sleep(1)
    for _ in range(20):
        (window, before, _), (_, after, wait) = [remaining_requests(client.get("/v1/ping")) for _ in range(2)]
        if window == "second" and after == before - 1:
            break
    else:
        raise AssertionError(f"two pings never followed each other in one second: {before}, {after}")
    assert wait <= 1
    time.sleep(1.1)
    window, again, _ = remaining_requests(client.get("/v1/ping"))
    assert window != "second" or again >= before
