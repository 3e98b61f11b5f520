"""Calls: sessions, new calls, consent, the steps of simulated and live calls, transcripts and recordings."""
