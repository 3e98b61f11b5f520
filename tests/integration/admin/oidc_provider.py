"""A real OpenID Connect provider on loopback, people who sign in on its pages, and tokens of one's own making."""

from __future__ import annotations

import html
import http.client
import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.support.stage import ROOT

SECRET = "a-secret/with:everything+that=must&be%encoded"
CONFIDENTIAL, PUBLIC = "appointments", "appointments-public"


def new_key(kid: str) -> dict[str, Any]:
    """A new signing key as a JWK with its private part."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return {**json.loads(RSAAlgorithm.to_jwk(key)), "kid": kid, "alg": "RS256", "use": "sig"}


def sign_token(claims: dict[str, Any], key: dict[str, Any], **header: Any) -> str:
    """A token with these claims, signed with this key."""
    return jwt.encode(claims, jwt.PyJWK(key, "RS256").key, "RS256", {"kid": key["kid"]} | header)


@dataclass
class Person:
    """Somebody in front of the provider's pages, with a browser of their own."""

    name: str
    cookies: dict[str, str] = field(default_factory=dict)

    def sign_in(self, url: str, back: str) -> str:
        """Open the provider's page, sign in and consent; the URL below `back` to which the provider returns."""
        method, body = "GET", None
        for _ in range(12):
            status, location, page = self._ask(method, url, body)
            if location:
                method, body, url = "GET", None, urllib.parse.urljoin(url, location)
                if url.startswith(back):
                    return url
                continue
            assert status == 200, page
            action = re.search(r'<form[^>]*action="([^"]+)"', page)
            assert action, page
            prompt = re.search(r'name="prompt" value="(\w+)"', page)
            assert prompt, page
            form = {"prompt": prompt[1]} | ({"login": self.name, "password": "any"} if prompt[1] == "login" else {})
            method, url, body = (
                "POST",
                urllib.parse.urljoin(url, html.unescape(action[1])),
                urllib.parse.urlencode(form),
            )
        raise AssertionError("the provider never returns")

    def has_session(self, url: str, back: str) -> bool:
        """Whether the provider lets this browser through to `back` and does not ask who is there."""
        _, location, page = self._ask("GET", url, None)
        while location:
            url = urllib.parse.urljoin(url, location)
            if url.startswith(back):
                return True
            _, location, page = self._ask("GET", url, None)
        return 'name="prompt" value="login"' not in page

    def sign_out(self, url: str, back: str) -> str:
        """Open the provider's page and sign out there; the URL to which the provider returns, which is `back`."""
        _, _, page = self._ask("GET", url, None)
        action, token = re.search(r'action="([^"]+)"', page), re.search(r'name="xsrf" value="(\w+)"', page)
        assert action, page
        assert token, page
        form = urllib.parse.urlencode({"xsrf": token[1], "logout": "yes"})
        _, location, page = self._ask("POST", html.unescape(action[1]), form)
        assert location == back, page
        return location

    def _ask(self, method: str, url: str, body: str | None) -> tuple[int, str | None, str]:
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if body is not None else {}
        connection.request(method, f"{parts.path}?{parts.query}", body, headers)
        response = connection.getresponse()
        for text in response.msg.get_all("Set-Cookie", []):
            name, _, value = text.partition(";")[0].partition("=")
            self.cookies[name] = value
        page = response.read().decode()
        connection.close()
        return response.status, response.getheader("Location"), page


@contextmanager
def running(port: int, redirect_uri: str, *keys: dict[str, Any]) -> Iterator[str]:
    """A provider that signs with the first key, for as long as the block runs; its issuer."""
    common = {"redirect_uris": [redirect_uri], "response_types": ["code"], "grant_types": ["authorization_code"]}
    common["post_logout_redirect_uris"] = [redirect_uri.removesuffix("/callback")]
    confidential = {"client_id": CONFIDENTIAL, "client_secret": SECRET}
    public = {"client_id": PUBLIC, "token_endpoint_auth_method": "none"}
    settings = {"port": port, "jwks": {"keys": [*keys]}, "clients": [confidential | common, public | common]}
    script = Path(__file__).with_suffix(".mjs")
    process = subprocess.Popen(
        ["node", str(script), json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdin
    assert process.stdout
    try:
        while (line := process.stdout.readline()) != b"ready\n":
            assert line, "the provider ended"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()
