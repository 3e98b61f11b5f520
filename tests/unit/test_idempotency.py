from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import cast

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from shared.api import idempotency
from shared.api.idempotency import IdempotencyKey, IdempotencyRow
from shared.api.responses import Response
from shared.core import clock
from shared.core.errors import ApiError
from shared.store import table
from shared.store.keys import Scope

NOW = 1_790_000_000
API_KEY = "sk_test_" + "a1B2" * 8
BODY = '{"id":"whk_1","secret":"whsec_c2VjcmV0","label":"\u00e4\U0001f600"}'
SAVED = Response[object](201, BODY, "/v1/webhook_endpoints/whk_1")
SECRET = dataclasses.replace(SAVED, holds_secret=True)
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


@pytest.fixture(autouse=True)
def _stopped_clock() -> Iterator[None]:
    clock.use(lambda: float(NOW), lambda seconds: None)
    yield
    clock.use(time.time, time.sleep)


def key(value: str = "key-1", api_key: str = API_KEY, scope: Scope | None = None) -> IdempotencyKey:
    return IdempotencyKey(scope or Scope(1, False), value, idempotency.fingerprint("POST", "/v1/x", {"a": 1}), api_key)


def refusal(asked: IdempotencyKey, row: dict[str, object]) -> str:
    with pytest.raises(ApiError) as caught:
        idempotency.read(asked, cast("IdempotencyRow", row))
    return caught.value.code


@pytest.mark.parametrize("sealed", [False, True])
def test_a_saved_answer_is_replayed_byte_for_byte(sealed: bool) -> None:
    row = idempotency.record_write(key(), SECRET if sealed else SAVED, "req_1").row

    assert idempotency.read(key(), cast("IdempotencyRow", row)) == dataclasses.replace(SAVED, original_request="req_1")


def test_the_row_of_a_sealed_answer_reveals_neither_the_answer_nor_the_keys() -> None:
    row = idempotency.record_write(key("my-idempotency-key"), SECRET, "req_1").row
    content = b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in row.values())

    for secret in ("whsec_", "c2VjcmV0", 'whk_1"', API_KEY, API_KEY[8:], "my-idempotency-key"):
        assert secret.encode() not in content


def test_the_seal_is_aes_256_gcm_under_a_key_that_hkdf_makes_of_both_keys_and_the_salt() -> None:
    row = idempotency.record_write(key("k"), SECRET, "req_1").row
    derived = HKDF(SHA256(), 32, row["salt"], b"saved response").derive(f"{API_KEY}\nk".encode())

    assert AESGCM(derived).decrypt(row["nonce"], row["sealed"], None) == BODY.encode()
    assert len(row["salt"]) >= 16
    assert len(row["nonce"]) == 12


def test_no_two_seals_share_a_salt_or_a_nonce() -> None:
    rows = [idempotency.record_write(key(), SECRET, "req_1").row for _ in range(50)]

    for name in ("salt", "nonce", "sealed"):
        assert len({row[name] for row in rows}) == 50


def test_a_sealed_answer_opens_for_the_api_key_that_asked_first_only() -> None:
    row = idempotency.record_write(key(), SECRET, "req_1").row

    assert refusal(key(api_key=API_KEY[:-1] + "x"), row) == "idempotency_key_reused"


@pytest.mark.parametrize("name", ["salt", "nonce", "sealed"])
def test_a_seal_that_was_tampered_with_does_not_open(name: str) -> None:
    row = idempotency.record_write(key(), SECRET, "req_1").row
    row[name] = bytes([row[name][0] ^ 1]) + row[name][1:]

    assert refusal(key(), row) == "idempotency_key_reused"


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("PATCH", "/v1/x", {"a": 1}), ("POST", "/v1/y", {"a": 1}), ("POST", "/v1/x", {"a": 2}), ("POST", "/v1/x", {})],
)
def test_another_method_path_or_body_is_another_request(
    method: str, path: str, body: dict[str, int], sealed: bool
) -> None:
    row = idempotency.record_write(key(), SECRET if sealed else SAVED, "req_1").row
    other = dataclasses.replace(key(), fingerprint=idempotency.fingerprint(method, path, body))

    assert refusal(other, row) == "idempotency_key_reused"


def test_the_spelling_of_a_body_does_not_matter_but_its_values_do() -> None:
    def print_of(body: dict[str, object]) -> str:
        return idempotency.fingerprint("POST", "/v1/x", body)

    assert print_of({"a": 1, "b": {"c": 2, "d": 3}}) == print_of({"b": {"d": 3, "c": 2}, "a": 1})
    prints = {print_of({"a": value}) for value in (1, 1.0, True, "1", None, [1], {"1": 1})}
    assert len(prints) == 7


def test_a_key_belongs_to_one_project_and_mode() -> None:
    scopes = [Scope(1, False), Scope(1, True), Scope(2, False), Scope(11, False)]

    assert len({key(scope=scope).pk for scope in scopes}) == 4


@given(st.text(PRINTABLE, min_size=1, max_size=255))
def test_any_printable_ascii_of_1_to_255_characters_is_a_key(value: str) -> None:
    assert idempotency.parse([value]) == value


@pytest.mark.parametrize(
    "keys", [[""], ["x" * 256], ["a\tb"], ["a\n"], ["a\x7f"], ["\u00e4"], ["\0"], ["a", "a"], ["a", "b"]]
)
def test_anything_else_is_no_key(keys: list[str]) -> None:
    with pytest.raises(ApiError) as caught:
        idempotency.parse(keys)

    assert (caught.value.code, caught.value.param) == ("idempotency_key_invalid", "Idempotency-Key")


def test_no_header_is_no_key() -> None:
    assert idempotency.parse([]) is None


def test_a_record_counts_for_24_hours_and_gives_way_after_them() -> None:
    put = idempotency.record_write(key(), SAVED, "req_1")

    assert put.row["expires_at"] == NOW + 24 * 3600
    assert put.condition == table.ABSENT | table.at_most("expires_at", NOW)
