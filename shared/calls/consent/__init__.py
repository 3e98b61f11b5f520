"""Consent to calls on WhatsApp.

consents          a phone's row: its latest request, and the answer
consent_requests  sends a request, and closes it with every call that waits for the answer
"""
