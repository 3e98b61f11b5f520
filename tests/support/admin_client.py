"""A browser without scripts in front of the admin function: cookies, forms and redirects."""

from __future__ import annotations

import base64
import html.parser
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any

from shared.admin import audit, members, sign_in_sessions
from shared.admin.members import Identity
from shared.store import transactions
from tests.support import privileges, receivers
from tests.support.stage import Project, Stage
from tests.support.wire import wire

SESSION = "__Host-admin_session"
HERE = "https://api.example.test/dev"
"""Where the stage's pages are: the gateway's stage is part of every URL."""


@dataclass(frozen=True)
class Shown:
    """A response; header names in lower case."""

    status: int
    headers: Mapping[str, list[str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def location(self) -> str:
        """Where it redirects to, without the gateway's stage if it is a page of ours."""
        (location,) = self.headers["location"]
        return location.removeprefix("/dev")

    @property
    def page(self) -> Markup:
        return Markup.of(self.text)

    def form(self, path: str) -> dict[str, str]:
        """The fields of the page's first form with this address; without one, the token that every form has."""
        forms = [fields for action, fields in self.page.forms if action.removeprefix("/dev") == path]
        return forms[0] if forms else {"csrf": self.field("csrf")}

    def field(self, name: str) -> str:
        """The value of a hidden field, which is the same in every form."""
        found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)">', self.text)
        assert found, f"the page has no field {name}"
        return found[1]


class Markup(html.parser.HTMLParser):
    """What a page consists of: tags with their attributes, its text, and its forms."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.forms: list[tuple[str, dict[str, str]]] = []
        """The address of each form with its fields, as a browser sends them if nobody types anything."""
        self._area: str | None = None
        self._select: str | None = None

    @classmethod
    def of(cls, text: str) -> Markup:
        parser = cls()
        # As a browser reads it: line breaks of one kind.
        parser.feed(text.replace("\r\n", "\n"))
        parser.close()
        return parser

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        name, value = attributes.get("name"), attributes.get("value")
        if tag == "form":
            self.forms.append((attributes.get("action") or "", {}))
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and ("selected" in attributes or self._select not in self.forms[-1][1]):
            self.forms[-1][1][self._select] = value or ""
        elif tag == "textarea" and name:
            self.forms[-1][1][name], self._area = "", name
        elif tag == "input" and name and attributes.get("type") == "checkbox":
            if "checked" in attributes:
                self.forms[-1][1][name] = "\n".join(filter(None, (self.forms[-1][1].get(name), value)))
        elif tag == "input" and name and (attributes.get("type") != "radio" or "checked" in attributes):
            self.forms[-1][1][name] = value or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area:
            fields = self.forms[-1][1]
            fields[self._area], self._area = fields[self._area].removeprefix("\n").replace("\n", "\r\n"), None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self._area:
            self.forms[-1][1][self._area] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@dataclass
class Browser:
    """One browser. It keeps cookies, but follows no redirects."""

    stage: Stage
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Shown:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, form: Mapping[str, str], **headers: str) -> Shown:
        given = {"Content-Type": "application/x-www-form-urlencoded"} | headers
        return self.send("POST", path, urllib.parse.urlencode(form), given)

    def submit(self, page: str, path: str, **form: str) -> Shown:
        """Open a page, and send a form of it in which these fields are filled in."""
        return self.post(path, self.get(page).form(path) | form)

    def send(self, method: str, path: str, raw: str | None = None, headers: Mapping[str, str] | None = None) -> Shown:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        given = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        event = self.stage.request(
            method, path, key="", headers=given | ({"Cookie": cookies} if cookies else {}), raw=raw
        )
        answer = self.stage.invoke("admin", event)
        found: dict[str, list[str]] = {name: [value] for name, value in answer["headers"].items()}
        found |= answer.get("multiValueHeaders", {})
        for text in found.get("set-cookie", []):
            self._keep(text)
        body = answer["body"]
        return Shown(
            answer["statusCode"], found, base64.b64decode(body) if answer["isBase64Encoded"] else body.encode()
        )

    def _keep(self, text: str) -> None:
        for name, morsel in SimpleCookie(text).items():
            if morsel["max-age"] == "0":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value


def identity(email: str) -> Identity:
    """The identity of a test's person."""
    return Identity("https://login.example.com", email, email)


@contextmanager
def as_test() -> Iterator[audit.Actor]:
    """What a test does itself, which is no function's doing."""
    with privileges.running(None):
        yield audit.operator()


def add_member(project: int, email: str, role: str) -> None:
    """Add a member, who has not joined."""
    with as_test() as operator:
        transactions.commit(lambda: members.add(project, email, role, operator))


def signed_in(stage: Stage, email: str, roles: Mapping[int, str] | None = None) -> Browser:
    """The browser of a person who has these roles, by project, and a session."""
    with as_test() as operator:
        for project, role in (roles or {}).items():
            add_member(project, email, role)
        members.join(identity(email).person, email, operator)
        return Browser(stage, {SESSION: sign_in_sessions.begin(identity(email))})


def trail(project: int) -> list[audit.AuditEntry]:
    """The project's audit trail, newest first, without what made the test's people."""
    with as_test():
        entries, _ = audit.page(project)
    return [one for one in entries if not one.action.startswith("member.")]


def keys_of(project: int) -> list[Any]:
    """The project's API keys."""
    from shared.projects import api_keys

    with as_test():
        return api_keys.of_project(project)


STAFF = "staff@example.com"
"""A member of the project, who has not signed in yet."""


@dataclass
class Story:
    """A project, one of its events, the event's delivery, and the receiver that refused it."""

    project: Project
    event: str
    delivery: str
    receiver: receivers.Receiver

    @property
    def path(self) -> str:
        return f"/admin/projects/{self.project.id}/test"


@dataclass
class Whole:
    """A story whose project has a resource of every kind; their ids by the section of their pages."""

    story: Story
    ids: dict[str, str]


def database_calls(browser: Browser, path: str) -> list[str]:
    """The calls of the database that a page makes."""
    with wire() as line:
        assert browser.get(path).status == 200
    return line.operations("dynamodb")
