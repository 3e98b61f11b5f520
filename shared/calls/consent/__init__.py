"""Consent to calls on WhatsApp: one record for each phone, and the requests for it."""
