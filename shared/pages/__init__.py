"""What all pages for people share, the admin pages and the documentation: the security headers, which are here.

templates  the templates of pages, which escape every value
assets     the files that pages load
documents  responses with an ETag that anyone may keep
"""

from __future__ import annotations

SECURITY = {
    # `data:` is for the icons in Pico's stylesheet. `connect-src` is for htmx, and for requests from the API reference.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # With `no-referrer`, browsers would send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""The headers of every page."""
