"""Calls: sessions, placing a call, consent, the steps of simulated and live calls, transcripts and recordings."""
