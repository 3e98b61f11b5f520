"""The recording of a simulated call: a WAV file in which each speaker is a tone."""

from __future__ import annotations

import io
import math
import wave
from array import array
from collections.abc import Sequence

from shared.calls.transcripts import Line

RATE = 8_000
"""Samples a second, 16 bits each, one channel."""
CYCLES = {"agent": 20, "customer": 32}
"""Samples of a cycle: 400 Hz and 250 Hz."""
LOUDNESS = 6_000
FADE = 80
"""Samples over which a tone fades in and out; without it a loudspeaker clicks."""

_MILLISECOND = RATE // 1_000


def duration_ms(lines: Sequence[Line]) -> int:
    """The length of the recording: to the end of the last line."""
    return lines[-1]["ended_at_ms"] if lines else 0


def wav(lines: Sequence[Line], length_ms: int = 0) -> bytes:
    """The recording of lines that follow one another, with silence up to `length_ms`, as the bytes of a WAV file."""
    samples = array("h")
    for line in lines:
        samples.extend(_silence(line["started_at_ms"] * _MILLISECOND - len(samples)))
        samples.extend(_tone(CYCLES[line["role"]], (line["ended_at_ms"] - line["started_at_ms"]) * _MILLISECOND))
    samples.extend(_silence(length_ms * _MILLISECOND - len(samples)))
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.tobytes())
    return file.getvalue()


def _silence(length: int) -> array[int]:
    return array("h", bytes(2 * max(0, length)))


def _tone(period: int, length: int) -> array[int]:
    cycle = array("h", (round(LOUDNESS * math.sin(2 * math.pi * n / period)) for n in range(period)))
    tone = (cycle * (length // period + 1))[:length]
    for n in range(min(FADE, length // 2)):
        tone[n] = tone[n] * n // FADE
        tone[-1 - n] = tone[-1 - n] * n // FADE
    return tone
