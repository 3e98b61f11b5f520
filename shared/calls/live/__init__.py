"""Live calls.

steps     the steps of a call, as the carrier describes it
contacts  the carrier's contact of a call, and what its events bring
voice     what the agent answers to each sentence, and to silence
"""
