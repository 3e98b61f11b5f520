"""Sign-in at an OpenID Connect provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1).

The provider is described by its discovery document. A container caches it for an hour, like the provider's keys and the
client's secret.
A token that names a key that is not cached is verified with freshly read keys, because providers rotate them.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import secrets
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import certifi
import jwt

from shared.admin.members import Identity
from shared.admin.sign_in import SignInAttempt
from shared.aws import services
from shared.core import clock, settings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The accepted signature algorithms. All are asymmetric: nobody but the provider can sign."""
LEEWAY_S = 60
"""The difference between the provider's clock and ours that is accepted (seconds)."""
CACHED_FOR_MS = clock.HOUR
_COGNITO = re.compile(r"https://cognito-idp\.[a-z0-9-]+\.amazonaws\.com/")
"""The issuers of Cognito's user pools."""
_TIMEOUT_S = 5
_MOST_BYTES = 1024 * 1024


class SignInRefused(Exception):
    """The provider did not identify a person. The message says why; it contains nothing secret."""


@dataclass
class Provider:
    """An OpenID Connect provider, and this service as its client. `client_secret_id` is a secret's ARN."""

    issuer: str
    client_id: str
    client_secret_id: str | None = None
    _cache: dict[str, tuple[clock.Instant, Any]] = field(default_factory=dict, repr=False)

    def authorization_url(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """The URL at which the person signs in."""
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email",
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return _with_query(self._metadata()["authorization_endpoint"], parameters)

    def sign_out_url(self, return_to: str) -> str | None:
        """The URL at which the browser ends its session at the provider, which then sends it to `return_to`.

        None if the provider has none. Raises SignInRefused. Providers follow OpenID Connect RP-Initiated Logout 1.0;
        Cognito has an endpoint and a parameter of its own ("The managed login sign-out endpoint: /logout":
        docs.aws.amazon.com/cognito/latest/developerguide/logout-endpoint.html).
        """
        metadata = self._metadata()
        if _COGNITO.match(self.issuer):
            endpoint = urllib.parse.urljoin(metadata["authorization_endpoint"], "/logout")
            return _with_query(endpoint, {"client_id": self.client_id, "logout_uri": return_to})
        if endpoint := metadata.get("end_session_endpoint"):
            return _with_query(endpoint, {"client_id": self.client_id, "post_logout_redirect_uri": return_to})
        return None

    def identify(self, attempt: SignInAttempt, code: str, redirect_uri: str) -> Identity:
        """Exchange the code for an ID token, and return the identity that it proves. Raises SignInRefused."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
            "client_id": self.client_id,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self.client_secret_id:
            # RFC 6749, section 2.3.1: both parts are form-encoded first.
            pair = (urllib.parse.quote_plus(part) for part in (self.client_id, self._secret(self.client_secret_id)))
            headers["Authorization"] = f"Basic {base64.b64encode(':'.join(pair).encode()).decode()}"
        request = urllib.request.Request(
            self._metadata()["token_endpoint"], urllib.parse.urlencode(form).encode(), headers
        )
        token = _json(request).get("id_token")
        if not isinstance(token, str):
            raise SignInRefused("the provider sent no ID token")
        return self.verify(token, attempt.nonce)

    def verify(self, token: str, nonce: str) -> Identity:
        """The identity that an ID token proves (OpenID Connect Core 1.0, section 3.1.3.7). Raises SignInRefused."""
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise SignInRefused("the ID token's signature algorithm is not accepted")
            claims = jwt.decode(
                token,
                self._key(header),
                algorithms=[header["alg"]],
                audience=self.client_id,
                issuer=self.issuer,
                # The times are checked below, on the service's clock.
                options={
                    "require": ["iss", "sub", "aud", "exp", "iat"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except jwt.PyJWTError as error:
            raise SignInRefused(f"the ID token is not valid: {error}") from None
        self._check_claims(claims, nonce)
        return Identity(self.issuer, claims["sub"], claims["email"])

    def _check_claims(self, claims: Mapping[str, Any], nonce: str) -> None:
        now = clock.to_unix(clock.now())
        times = [claims["exp"], claims["iat"], claims.get("nbf", 0)]
        if not all(isinstance(time, int | float) for time in times):
            raise SignInRefused("the ID token's times are not numbers")
        expires, issued, begins = times
        if now >= expires + LEEWAY_S:
            raise SignInRefused("the ID token has expired")
        if max(issued, begins) > now + LEEWAY_S:
            raise SignInRefused("the ID token is from the future")
        if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise SignInRefused("the ID token belongs to another sign-in")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self.client_id) != self.client_id:
            raise SignInRefused("the ID token was issued to another client")
        # Some providers send the value as text.
        if not isinstance(claims.get("email"), str) or claims.get("email_verified") not in (True, "true"):
            raise SignInRefused("the provider has not verified the person's e-mail address")

    def _key(self, header: Mapping[str, Any]) -> Any:
        """The provider's key that signed a token with this header."""
        for fresh in (False, True):
            keys = self._document(self._metadata()["jwks_uri"], fresh=fresh).get("keys", [])
            usable = [key for key in keys if key.get("use", "sig") == "sig" and key.get("kty") != "oct"]
            matching = [key for key in usable if header.get("kid") in (None, key.get("kid"))]
            if len(matching) == 1:
                return jwt.PyJWK(matching[0], algorithm=header["alg"]).key
        raise SignInRefused("the provider has no key that signed the ID token")

    def _metadata(self) -> Any:
        metadata = self._document(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != self.issuer:
            raise SignInRefused("the provider names another issuer")
        return metadata

    def _secret(self, id: str) -> str:
        def read() -> str:
            return str(services.call(services.secretsmanager().get_secret_value, SecretId=id)["SecretString"])

        return str(self._cached(id, read))

    def _document(self, url: str, *, fresh: bool = False) -> Any:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})
        return self._cached(url, lambda: _json(request), fresh=fresh)

    def _cached(self, name: str, read: Callable[[], Any], *, fresh: bool = False) -> Any:
        read_at, value = self._cache.get(name, (0, None))
        if fresh or value is None or not 0 <= clock.now() - read_at < CACHED_FOR_MS:
            value = read()
            self._cache[name] = (clock.now(), value)
        return value


def provider() -> Provider | None:
    """The stage's provider; None if it has none."""
    issuer = settings.oidc_issuer()
    if not issuer:
        return None
    return _provider(issuer, settings.oidc_client_id(), settings.oidc_client_secret_id())


@functools.cache
def _provider(issuer: str, client_id: str, client_secret_id: str | None) -> Provider:
    return Provider(issuer, client_id, client_secret_id)


def _with_query(url: str, parameters: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urllib.parse.urlencode(parameters)}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Redirects are errors."""


@functools.cache
def _opener() -> urllib.request.OpenerDirector:
    context = ssl.create_default_context(cafile=certifi.where())
    return urllib.request.build_opener(
        _NoRedirect, urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )


def _json(request: urllib.request.Request) -> Any:
    """The JSON object that the provider responds with. Raises SignInRefused."""
    try:
        with _opener().open(request, timeout=_TIMEOUT_S) as response:
            document = json.loads(response.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        raise SignInRefused(f"the provider responded with {error.code}") from None
    except (OSError, ValueError) as error:
        raise SignInRefused(f"the provider did not respond: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise SignInRefused("the provider's response is not a JSON object")
    return document
