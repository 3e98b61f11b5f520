"""Signing in, at a real OpenID Connect provider and by the local runner's links, and everything that is refused."""

from __future__ import annotations

import base64
import hmac
import html
import json
import re
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import boto3
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from infra.local.database import free_port
from shared.admin import audit, members, oidc, sign_in
from shared.core import clock
from shared.store import transactions
from tests.integration.admin import oidc_provider
from tests.integration.admin.oidc_provider import CONFIDENTIAL, PUBLIC, SECRET, Person, new_key, sign_token
from tests.support.admin_client import HERE, SESSION, Browser, Shown, add_member, as_test, identity
from tests.support.clocks import Clock
from tests.support.stage import Stage

CALLBACK = f"{HERE}/admin/sign-in/callback"
KEY = new_key("first")
ADA = "ada@example.com"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_provider.running(free_port(), CALLBACK, KEY) as url:
        yield url


@pytest.fixture(params=[CONFIDENTIAL, PUBLIC])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def browser(stage: Stage, issuer: str, monkeypatch: pytest.MonkeyPatch) -> Browser:
    return browser_with_provider(stage, issuer, CONFIDENTIAL, monkeypatch)


def browser_with_provider(stage: Stage, issuer: str, client: str, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """A browser in front of a stage with this provider."""
    monkeypatch.setenv("OIDC_ISSUER", issuer)
    monkeypatch.setenv("OIDC_CLIENT_ID", client)
    if client == CONFIDENTIAL:
        with as_test():
            manager = boto3.client("secretsmanager")
            name = f"sign-in-{time.time_ns()}"
            arn = manager.create_secret(Name=name, SecretString=SECRET)["ARN"]
        monkeypatch.setenv("OIDC_CLIENT_SECRET_ID", arn)
    return Browser(stage)


def begin(browser: Browser, return_to: str = "/admin/account") -> str:
    """Begin a sign-in; the provider's URL."""
    shown = browser.get(f"/admin/sign-in/start?return_to={urllib.parse.quote(return_to)}")
    assert shown.status == 303, shown.text
    return shown.headers["location"][0]


def path_of(url: str) -> str:
    """The path of the stage for the URL to which the provider returns."""
    return url.removeprefix(HERE)


def sign_in_as(browser: Browser, name: str, return_to: str = "/admin/account") -> Shown:
    return browser.get(path_of(Person(name).sign_in(begin(browser, return_to), CALLBACK)))


def query(url: str) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))


def test_a_member_signs_in_and_is_bound_to_the_identity(
    stage: Stage, issuer: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = browser_with_provider(stage, issuer, client, monkeypatch)
    project = stage.project("Blue Clinic").id
    add_member(project, "Ada@Example.com", members.VIEWER)
    path = f"/admin/projects/{project}/live/customers?phone=%2B15005550006&email=a%40b.example"
    asked = browser.get(path)
    assert asked.location == f"/admin/sign-in?return_to={urllib.parse.quote(path, safe='')}"
    assert "/admin/sign-in/start?return_to=/admin/projects/" in browser.get(asked.location).text

    url = begin(browser, path)
    assert url.startswith(issuer)
    sent = query(url)
    assert sent | {"state": "", "nonce": "", "code_challenge": ""} == {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": CALLBACK,
        "scope": "openid email",
        "state": "",
        "nonce": "",
        "code_challenge": "",
        "code_challenge_method": "S256",
    }
    assert all(len(sent[name]) == 43 for name in ("state", "nonce", "code_challenge"))

    done = browser.get(path_of(Person(ADA).sign_in(url, CALLBACK)))
    assert done.location == path
    (cookie,) = [text for text in done.headers["set-cookie"] if text.startswith(f"{SESSION}=")]
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= parts
    assert not [part for part in parts if part.startswith("domain")]
    assert browser.get(path).status == 200
    with as_test():
        (member,) = members.of_project(project)
        entries, _ = audit.page(project)
    assert member.joined_at
    assert [(entry.action, entry.who) for entry in entries] == [
        ("member.joined", ADA),
        ("member.added", audit.OPERATOR),
    ]


def test_somebody_who_is_no_member_signs_in_and_sees_no_project(browser: Browser) -> None:
    assert sign_in_as(browser, "nobody@example.com", "/admin").location == "/admin"
    assert "not a member of any project" in browser.get("/admin").text


def test_an_address_that_the_provider_has_not_verified_signs_nobody_in(stage: Stage, browser: Browser) -> None:
    add_member(stage.project().id, "unverified@example.com", members.OWNER)
    refused = sign_in_as(browser, "unverified@example.com")
    assert refused.status == 403
    assert SESSION not in browser.cookies


def test_a_response_of_the_provider_is_taken_once(browser: Browser) -> None:
    path = path_of(Person(ADA).sign_in(begin(browser), CALLBACK))
    attempt = dict(browser.cookies)
    assert browser.get(path).status == 303
    again = Browser(browser.stage, attempt)
    assert again.get(path).status == 403
    assert SESSION not in again.cookies


def test_a_response_is_for_the_browser_that_asked(stage: Stage, browser: Browser) -> None:
    path = path_of(Person(ADA).sign_in(begin(browser), CALLBACK))
    victim = Browser(stage)
    assert victim.get(path).status == 403
    assert SESSION not in victim.cookies
    other = Browser(stage)
    path = path_of(Person(ADA).sign_in(begin(browser), CALLBACK))
    begin(other)
    assert other.get(path).status == 403


def test_a_code_of_another_attempt_is_refused_by_the_provider(browser: Browser) -> None:
    """PKCE: whoever slips a stolen code into an attempt of their own lacks the verifier."""
    stolen = query(Person(ADA).sign_in(begin(browser), CALLBACK))["code"]
    state = query(begin(browser))["state"]
    refused = browser.get(f"/admin/sign-in/callback?code={stolen}&state={state}")
    assert refused.status == 403
    assert "the provider responded with 400" in refused.text


def test_an_attempt_expires(browser: Browser, stopped_clock: Clock) -> None:
    path = path_of(Person(ADA).sign_in(begin(browser), CALLBACK))
    stopped_clock.forward(sign_in.ATTEMPT_MS / clock.SECOND + 1)
    assert browser.get(path).status == 403


@pytest.mark.parametrize(
    "more", ["error=access_denied", "code=", "code=x&iss=https%3A%2F%2Fevil.example", "code=made-up"]
)
def test_a_response_that_confirms_nothing_signs_nobody_in(browser: Browser, more: str) -> None:
    state = query(begin(browser))["state"]
    assert browser.get(f"/admin/sign-in/callback?state={state}&{more}").status == 403
    assert browser.get("/admin/sign-in/callback?code=x&state=made-up").status == 403
    assert SESSION not in browser.cookies


def test_keys_that_the_provider_rotates_are_read_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    browser = browser_with_provider(stage, f"http://127.0.0.1:{port}", PUBLIC, monkeypatch)
    for key in (KEY, new_key("second"), new_key("third")):
        with oidc_provider.running(port, CALLBACK, key):
            assert sign_in_as(browser, ADA).status == 303


def test_a_provider_that_is_down_is_a_page_that_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = browser_with_provider(stage, f"http://127.0.0.1:{free_port()}", PUBLIC, monkeypatch)
    refused = browser.get("/admin/sign-in/start")
    assert refused.status == 403
    assert "the provider did not respond" in refused.text


def test_a_provider_that_names_another_issuer_is_not_trusted(stage: Stage, issuer: str) -> None:
    provider = oidc.Provider(f"{issuer}/", PUBLIC)
    with pytest.raises(oidc.SignInRefused, match="another issuer"):
        provider.verify(sign_token({}, KEY), "nonce")


NOW = int(time.time())
GOOD: dict[str, Any] = {
    "sub": "1",
    "aud": PUBLIC,
    "exp": NOW + 86_400,
    "iat": NOW,
    "nonce": "nonce",
    "email": ADA,
    "email_verified": True,
}
OTHER = new_key("first") | {"kid": "first"}


def claims_without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


def test_a_token_of_the_provider_identifies_a_person(issuer: str) -> None:
    found = oidc.Provider(issuer, PUBLIC).verify(sign_token(GOOD | {"iss": issuer}, KEY), "nonce")
    assert found == members.Identity(issuer, "1", ADA)


REFUSED: dict[str, dict[str, Any]] = {
    "another client": GOOD | {"aud": "another-client"},
    "another client, too": GOOD | {"aud": [PUBLIC, "another-client"]},
    "authorized for another client": GOOD | {"azp": "another-client"},
    "expired": GOOD | {"exp": NOW - 120},
    "expires at no time": GOOD | {"exp": "soon"},
    "issued later": GOOD | {"iat": NOW + 86_400},
    "valid later": GOOD | {"nbf": NOW + 86_400},
    "of another sign-in": GOOD | {"nonce": "of another sign-in"},
    "of another issuer": GOOD | {"iss": "https://evil.example"},
    "unverified": GOOD | {"email_verified": False},
    "unverified in words": GOOD | {"email_verified": "false"},
    "no address": GOOD | {"email": None},
} | {f"without {name}": claims_without(name) for name in GOOD}


@pytest.mark.parametrize("why", REFUSED)
def test_a_token_that_lacks_anything_is_refused(issuer: str, why: str) -> None:
    with pytest.raises(oidc.SignInRefused):
        oidc.Provider(issuer, PUBLIC).verify(sign_token({"iss": issuer} | REFUSED[why], KEY), "nonce")


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_a_forged_token_is_refused(issuer: str) -> None:
    claims = GOOD | {"iss": issuer}
    public = jwt.PyJWK(KEY, "RS256").key.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body, signature = sign_token(claims, KEY).split(".")
    # PyJWT itself refuses to sign with a public key.
    symmetric = f"{encode(json.dumps({'alg': 'HS256', 'kid': 'first'}).encode())}.{body}"
    digest = encode(hmac.digest(pem, symmetric.encode(), "sha256"))
    forged = [
        sign_token(claims, OTHER),  # another key under the same name
        sign_token(claims, new_key("unknown")),
        jwt.encode(claims, "", "none"),
        f"{symmetric}.{digest}",  # the public key as a shared secret
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        ".".join((head, sign_token(claims | {"sub": "2"}, OTHER).split(".")[1], signature)),
        "not a token",
        "",
    ]
    for token in forged:
        with pytest.raises(oidc.SignInRefused):
            oidc.Provider(issuer, PUBLIC).verify(token, "nonce")


@pytest.mark.parametrize(
    "path",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/admin/../x",
        "/admin//evil",
        "/v1/ping",
        "/admin/sign-out",
        "/admin?//evil\nSet-Cookie:a=b",
    ],
)
def test_a_sign_in_returns_only_to_admin_pages(browser: Browser, path: str) -> None:
    assert sign_in_as(browser, ADA, path).location == "/admin"


def test_signing_out_ends_the_providers_session_too(
    stage: Stage, issuer: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, person = browser_with_provider(stage, issuer, client, monkeypatch), Person(ADA)
    browser.get(path_of(person.sign_in(begin(browser), CALLBACK)))
    shown = browser.submit("/admin/account", "/admin/sign-out")
    assert SESSION not in browser.cookies
    # Not a redirect: browsers block one that leads a form to another host than the page's policy names.
    assert shown.status == 200
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', shown.text)
    assert found
    url = html.unescape(found[1])
    assert url.startswith(issuer)
    signed_out = CALLBACK.removesuffix("/callback")
    assert query(url) == {"client_id": client, "post_logout_redirect_uri": signed_out}
    assert person.has_session(begin(browser), CALLBACK)
    person.sign_out(url, signed_out)
    assert not person.has_session(begin(browser), CALLBACK), "whoever has the browser now is signed in again"


def test_cognito_is_asked_to_sign_out_in_its_own_way() -> None:
    issuer, domain = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Example", "https://people.example.com"
    document = {"issuer": issuer, "authorization_endpoint": f"{domain}/oauth2/authorize"}
    read = {f"{issuer}/.well-known/openid-configuration": (clock.now(), document)}
    url = oidc.Provider(issuer, "the-client", None, read).sign_out_url(f"{HERE}/admin/sign-in")
    assert url is not None
    assert url.partition("?")[0] == f"{domain}/logout"
    assert query(url) == {"client_id": "the-client", "logout_uri": f"{HERE}/admin/sign-in"}


def test_a_provider_that_does_not_respond_does_not_keep_anybody_from_signing_out(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in_as(browser, ADA)
    monkeypatch.setenv("OIDC_ISSUER", f"http://127.0.0.1:{free_port()}")
    assert browser.submit("/admin/account", "/admin/sign-out").location == "/admin/sign-in"
    assert SESSION not in browser.cookies


def test_a_link_signs_in_once_and_only_on_the_local_runner(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    project = stage.project().id
    add_member(project, ADA, members.OWNER)
    with as_test():
        links = [f"/admin/sign-in/link?token={sign_in.new_link(ADA)}" for _ in range(2)]
    deployed = Browser(stage)
    assert deployed.get(links[0]).status == 404
    monkeypatch.setenv("SIGN_IN_LINKS", "1")
    browser = Browser(stage)
    assert browser.send("HEAD", links[0]).status == 403, "a preview of the link does not use it up"
    signed_in = browser.get(links[0])
    assert signed_in.location == "/admin"
    assert browser.get(f"/admin/projects/{project}/test/events").status == 200
    # There is no TLS on loopback.
    assert "secure" not in signed_in.headers["set-cookie"][0].lower()
    used = browser.get(links[0])
    assert used.status == 403
    assert "the link has been used or has expired" in used.page.text
    assert "You are not signed in" not in used.page.text
    assert "/dev/admin" in [attributes.get("href") for tag, attributes in used.page.tags if tag == "a"]
    assert browser.get("/admin/account").status == 200
    other = Browser(stage)
    assert "You are not signed in" in other.get(links[0]).page.text
    assert other.get(links[0]).status == 403
    assert other.get("/admin/sign-in/link?token=made-up").status == 403
    assert other.cookies == {}
    # A second link signs the same person in.
    assert other.get(links[1]).status == 303
    assert other.get(f"/admin/projects/{project}/test/events").status == 200


def test_a_link_expires(stage: Stage, monkeypatch: pytest.MonkeyPatch, stopped_clock: Clock) -> None:
    monkeypatch.setenv("SIGN_IN_LINKS", "1")
    with as_test():
        token = sign_in.new_link(ADA)
    stopped_clock.forward(sign_in.LINK_MS / clock.SECOND + 1)
    assert Browser(stage).get(f"/admin/sign-in/link?token={token}").status == 403


def test_a_sign_in_begins_a_new_session_and_ends_the_earlier_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGN_IN_LINKS", "1")
    with as_test():
        first, second = (f"/admin/sign-in/link?token={sign_in.new_link(ADA)}" for _ in range(2))
    browser = Browser(stage, {"admin_session": "chosen by an attacker"})
    browser.get(first)
    earlier = Browser(stage, dict(browser.cookies))
    assert earlier.cookies["admin_session"] != "chosen by an attacker"
    browser.get(second)
    assert browser.get("/admin/account").status == 200
    assert earlier.get("/admin/account").status == 303


def test_adding_and_removing_members(stage: Stage) -> None:
    project, grace = stage.project().id, "brought-back@example.com"
    add_member(project, grace, members.MEMBER)
    with pytest.raises(ValueError, match="already"):
        add_member(project, grace.upper(), members.OWNER)
    with pytest.raises(LookupError):
        add_member(999_999_999, grace, members.OWNER)
    with as_test() as operator:
        assert members.is_invited(grace.upper())
        transactions.commit(lambda: members.remove(project, grace, operator))
        assert not members.is_invited(grace)
        with pytest.raises(LookupError):
            members.remove(project, grace, operator)
        members.join(identity(grace).person, grace, operator)
        assert members.person(identity(grace).person).memberships == ()
        assert [entry.action for entry in audit.page(project)[0]] == ["member.removed", "member.added"]
