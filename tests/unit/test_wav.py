from __future__ import annotations

import io
import time
import wave
from array import array
from itertools import pairwise

import pytest

from shared.calls.dialogue import to_lines
from shared.calls.transcripts import Line
from shared.calls.wav import RATE, duration_ms, wav

LINES = to_lines(
    [("agent", "Hello, this is the assistant of Blue Clinic."), ("customer", "Yes."), ("agent", "Goodbye!")]
)


def samples(recording: bytes) -> array[int]:
    with wave.open(io.BytesIO(recording)) as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnchannels()) == (8_000, 2, 1)
        assert file.getcomptype() == "NONE"
        return array("h", file.readframes(file.getnframes()))


def part_of(line: Line, sound: array[int]) -> array[int]:
    return sound[line["started_at_ms"] * 8 : line["ended_at_ms"] * 8]


def crossings_a_second(sound: array[int]) -> float:
    return sum(1 for one, later in pairwise(sound) if one < 0 <= later) * RATE / len(sound)


def test_it_is_as_long_as_the_talk() -> None:
    assert len(samples(wav(LINES))) == LINES[-1]["ended_at_ms"] * 8
    assert duration_ms(LINES) == LINES[-1]["ended_at_ms"]


def test_it_may_be_made_longer_by_silence_but_not_shorter() -> None:
    end = duration_ms(LINES)
    longer = samples(wav(LINES, end + 70))
    assert len(longer) == (end + 70) * 8
    assert not any(longer[end * 8 :])
    assert wav(LINES, end - 70) == wav(LINES)


def test_each_speaker_has_a_tone_of_its_own() -> None:
    sound = samples(wav(LINES))
    agent, customer, agent_again = (crossings_a_second(part_of(line, sound)) for line in LINES)
    assert agent == pytest.approx(400, rel=0.02)
    assert customer == pytest.approx(250, rel=0.02)
    assert agent_again == pytest.approx(agent, rel=0.02)
    assert all(max(part_of(line, sound)) > 5_000 for line in LINES)


def test_it_is_silent_where_nobody_speaks() -> None:
    sound, silent = samples(wav(LINES)), 0
    for line in LINES:
        assert not any(sound[silent * 8 : line["started_at_ms"] * 8])
        silent = line["ended_at_ms"]


def test_a_tone_swells_and_dies_away_without_a_click() -> None:
    sound = samples(wav(LINES))
    for line in LINES:
        tone = part_of(line, sound)
        # Five milliseconds from either end it is at most half as loud.
        assert max(map(abs, tone[:40] + tone[-40:])) <= 3_000
        assert tone[0] == tone[-1] == 0


def test_a_line_of_a_millisecond_and_a_call_without_lines_are_recorded_too() -> None:
    assert len(samples(wav([Line(role="agent", content="", started_at_ms=3, ended_at_ms=4)]))) == 32
    assert len(samples(wav([]))) == duration_ms([]) == 0


def test_a_minute_is_recorded_in_no_time() -> None:
    lines = to_lines([("agent", "x" * 300), ("customer", "y" * 300), ("agent", "z" * 300)])
    assert duration_ms(lines) > 60_000
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        wav(lines)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.05
