"""People at the admin pages, with a browser: the pages that they open, and the forms that they send, often twice."""

from __future__ import annotations

import html
import json
import random
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.clients import PHONES, Load, Scope, Taking

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.world import Response, World

PEOPLE = ("member", "member", "viewer")
"""The roles of those who use the pages."""
TAKES = {"conversation.taken": True, "conversation.released": False}
"""The forms of the desk, and whether they take a conversation."""
SAID = {"taken": True, "nobody_waits": False}
"""By the notice of a page: whether its person has taken the conversation."""
COOKIE = "__Host-admin_session"
MOST_TRIES = 3
LISTS = (
    *("attention", "waiting", "customers", "appointments", "sessions", "conversations", "events"),
    *("failed_deliveries", "webhook_endpoints", "audit_trail", "usage", "agent_settings"),
)
"""Pages that every member sees."""
PAGES = ("", *LISTS, "find?q=Ada")
KINDS = ("customers", "appointments", "sessions", "conversations", "webhook_endpoints")
_HIDDEN = re.compile(r'<input type="hidden" name="(csrf|once|rendered)" value="([^"]*)">')
_METADATA = re.compile(r'<textarea id="metadata"[^>]*>(.*?)</textarea>', re.DOTALL)
_ID = re.compile(r"\b(?:cust|appt|sess|conv|evt|we)_[0-9a-z]{26}\b")


@dataclass(frozen=True)
class View:
    """A page as somebody saw it, with the ids on it."""

    scope: Scope
    who: str
    path: str
    is_theirs: bool
    """Whether the page is of the person's project."""
    status: int
    was_hit: bool
    ids: frozenset[str]


@dataclass
class Form:
    """A form that somebody sent: what it asks for, and the statuses of all responses."""

    scope: Scope
    who: str
    role: str
    action: str
    """What the audit trail calls it."""
    name: str
    """The mark by which its effect is recognized."""
    target: str | None
    """What it changes, or what it has created."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """What it changes of the target."""
    is_forged: bool = False
    """Whether another site sent it, which does not know the token of forms."""
    statuses: list[int] = field(default_factory=list)

    @property
    def is_repeatable(self) -> bool:
        """Whether the form may have an effect each time that it is sent."""
        return self.action in TAKES

    @property
    def is_done(self) -> bool:
        """Whether a response says that it was done."""
        return 303 in self.statuses

    @property
    def is_refused(self) -> bool:
        """Whether every response says that nothing was done."""
        return all(400 <= status < 500 for status in self.statuses)


def invite(seed: str, scopes: Sequence[Scope], world: World, load: Load) -> list[Person]:
    """One person of each role, in these scopes."""
    found = [Person(seed, number, scopes[number], world, load) for number in range(len(PEOPLE))]
    for person in found:
        person.invite()
    return found


class Person:
    """One person, who has a role in the project of a scope."""

    def __init__(self, seed: str, number: int, scope: Scope, world: World, load: Load) -> None:
        self._random = random.Random(f"{seed}/person/{number}")
        self._scope, self._world, self._load = scope, world, load
        self._role, self._who = PEOPLE[number], f"person{number}@example.com"
        self._base = f"/admin/projects/{scope.name}"
        self._token = ""
        self._forms = 0

    def invite(self) -> None:
        """Make the person a member."""
        self._world.operate("admin", partial(_invite, self._scope.project, self._who, self._role))

    def run(self, steps: int) -> None:
        """Take so many steps."""
        choices = (self._look, self._look, self._create, self._edit, self._edit, self._reply, self._take, self._call)
        for _ in range(steps):
            self._random.choice(choices)()
            self._world.scheduler.sleep(self._random.expovariate(1 / 20))
        self._load.left -= 1

    # Steps

    def _look(self) -> None:
        """Open some pages, one of which may be of another project."""
        for _ in range(self._random.randint(1, 3)):
            kind = self._random.choice(KINDS)
            ids = self._load.known.get((self._scope.name, kind))
            path = f"{kind}/{self._random.choice(ids)}" if ids and self._random.random() < 0.6 else None
            self._open(f"{self._base}/{self._random.choice(PAGES) if path is None else path}".rstrip("/"))
        if self._random.random() < 0.2:
            other = self._base.replace(f"/{self._scope.project}/", f"/{3 - self._scope.project}/")
            self._open(f"{other}/customers", is_theirs=False)

    def _create(self) -> None:
        form = self._form("customer.created")
        form.body = {"phone": self._random.choice(PHONES), "metadata": {"mark": form.name}}
        fields = {"phone": form.body["phone"], "metadata": json.dumps(form.body["metadata"])}
        response = self._submit(form, f"{self._base}/customers/new", f"{self._base}/customers", fields)
        if found := _ID.search(response.headers.get("location", "")):
            form.target = found[0]
            self._load.known.setdefault((self._scope.name, "customers"), []).append(found[0])

    def _edit(self) -> None:
        """Set the mark in a customer's metadata."""
        if customer := self._any("customers"):
            path = f"{self._base}/customers/{customer}/edit"
            form = self._form("customer.changed", customer)
            form.body = {"metadata": {"mark": form.name}}
            self._submit(form, path, path, {})

    def _reply(self) -> None:
        if conversation := self._any("conversations"):
            page = f"{self._base}/conversations/{conversation}"
            form = self._form("conversation.message_added", conversation)
            self._submit(form, page, f"{page}/reply", {"content": form.name})

    def _take(self) -> None:
        """Take a conversation, or let others take it."""
        if conversation := self._any("conversations"):
            takes = self._random.random() < 0.7
            page = f"{self._base}/conversations/{conversation}"
            form = self._form("conversation.taken" if takes else "conversation.released", conversation)
            self._submit(form, page, f"{page}/{'take' if takes else 'release'}", {})

    def _call(self) -> None:
        if customer := self._any("customers"):
            path = f"{self._base}/customers/{customer}/call"
            form = self._form("customer.called", customer)
            self._submit(form, path, path, {"instructions": form.name})

    # The browser

    def _any(self, kind: str) -> str | None:
        ids = self._load.known.get((self._scope.name, kind))
        return self._random.choice(ids[-4:]) if ids else None

    def _form(self, action: str, target: str | None = None) -> Form:
        self._forms += 1
        is_forged = self._random.random() < 0.1
        return Form(
            self._scope, self._who, self._role, action, f"{self._who}-{self._forms}", target, is_forged=is_forged
        )

    def _open(self, path: str, *, is_theirs: bool = True) -> Response:
        response = self._send("GET", path)
        ids = frozenset(_ID.findall(response.body))
        view = View(self._scope, self._who, path, is_theirs, response.status, response.was_hit, ids)
        self._load.views.append(view)
        return response

    def _submit(self, form: Form, page: str, path: str, fields: dict[str, str]) -> Response:
        """Open a page and send its form: sometimes twice at once or one after the other, and again if it failed."""
        shown = self._open(page)
        if shown.status != 200 and self._role != "viewer":
            return shown
        if shown.status != 200:
            # Every page has the token of forms, which also somebody sends to whom the form is not offered.
            shown = self._open(self._base)
        fields |= dict(_HIDDEN.findall(shown.body))
        if form.action == "customer.changed":
            texts = _METADATA.findall(shown.body)
            metadata = json.loads(html.unescape(texts[0]) or "{}") if texts else {}
            fields["metadata"] = json.dumps(metadata | form.body["metadata"])
        if form.is_forged:
            fields["csrf"] = "guessed"
        self._load.forms.append(form)
        again = self._random.random()
        if again < 0.2:
            self._load.left += 1
            self._world.scheduler.spawn("form again", partial(self._post_second, form, path, fields))
        for number in range(MOST_TRIES):
            response = self._post(form, path, fields)
            if response.status < 500 and (number > 0 or again < 0.7):
                break
            self._world.scheduler.sleep(self._random.uniform(0.5, 5))
        return response

    def _post_second(self, form: Form, path: str, fields: Mapping[str, str]) -> None:
        self._post(form, path, fields)
        self._load.left -= 1

    def _post(self, form: Form, path: str, fields: Mapping[str, str]) -> Response:
        began = self._world.now
        response = self._send("POST", path, fields)
        form.statuses.append(response.status)
        if form.is_repeatable and form.target is not None:
            # The page of a released conversation does not say whether somebody had it.
            done = SAID.get(response.headers.get("location", "").partition("notice=")[2])
            taking = Taking(self._scope, form.target, self._who, TAKES[form.action], began, self._world.now, done)
            self._load.takings.append(taking)
        self._world.note(form.name, form.action, path, json.dumps(fields), response.status)
        return response

    def _send(self, method: str, path: str, form: Mapping[str, str] | None = None) -> Response:
        """The response to a request of somebody who is signed in; status 401 if signing in fails."""
        for _ in range(MOST_TRIES):
            if not self._token:
                ended = self._world.operate("admin", partial(_sign_in, self._who))
                self._token = ended.result if ended.succeeded else ""
            headers = {"Cookie": f"{COOKIE}={self._token}", "Content-Type": "application/x-www-form-urlencoded"}
            raw = None if form is None else urllib.parse.urlencode(form)
            response = self._world.request(method, path, "", headers=headers, raw=raw)
            if response.status != 401 and "/admin/sign-in" not in response.headers.get("location", ""):
                return response
            # The session has ended.
            self._token = ""
        return replace(response, status=401, headers={})


def _invite(project: int, who: str, role: str, host: Host) -> None:
    members, audit = host.module("shared.admin.members"), host.module("shared.admin.audit")
    host.commit(lambda: members.add(project, who, role, audit.operator()), "operator")
    members.join(_identity(host, who).person, who, audit.operator())


def _sign_in(who: str, host: Host) -> str:
    return str(host.module("shared.admin.sign_in_sessions").begin(_identity(host, who)))


def _identity(host: Host, who: str) -> Any:
    return host.module("shared.admin.members").Identity("https://login.example.com", who, who)
