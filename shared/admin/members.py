"""Members of projects: the people who may use a project's admin pages, and what they may do.

A member is added by e-mail address. The first sign-in with that verified address binds the member to the identity of
the sign-in, its issuer and subject. From then on only that identity is the member, whoever gets the address later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from shared.admin import audit
from shared.admin.audit import Actor
from shared.core import clock
from shared.projects import projects
from shared.store import table
from shared.store.transactions import Change


class MemberRole(StrEnum):
    """What a member may do, from the fewest rights to the most."""

    VIEWER = "viewer"
    """Sees everything but the page of a single member."""
    MEMBER = "member"
    """Also changes customers, appointments, conversations, endpoints, calls and the agent's settings, and replays."""
    OWNER = "owner"
    """Also changes API keys, members and limits, and exports."""


VIEWER, MEMBER, OWNER = ROLES = tuple(MemberRole)


@dataclass(frozen=True)
class Identity:
    """A person as a sign-in provider knows them. `email` is verified."""

    issuer: str
    subject: str
    email: str

    @property
    def person(self) -> str:
        """The person's id: a hash of issuer and subject."""
        return hashlib.sha256(f"{self.issuer}\n{self.subject}".encode()).hexdigest()


@dataclass(frozen=True)
class Member:
    """A member of a project. `id` is a hash of the address. `joined_at` is the time of the first sign-in, or None."""

    id: str
    project_id: int
    email: str
    role: MemberRole
    added_at: str
    joined_at: str | None


class LastOwner(Exception):
    """A project must have an owner."""


@dataclass(frozen=True)
class Membership:
    """A project of a person."""

    project_id: int
    project_name: str
    role: MemberRole

    def may(self, role: MemberRole) -> bool:
        """Whether the person has the rights of this role."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True)
class Person:
    """The projects of a person, oldest first. Sessions that began before `signed_out_at` have ended.

    `others` has the rows that were read with them.
    """

    memberships: tuple[Membership, ...]
    signed_out_at: clock.Instant
    others: table.Rows = field(repr=False)

    def in_project(self, project_id: int) -> Membership | None:
        """The membership in this project; None without one."""
        return next((one for one in self.memberships if one.project_id == project_id), None)


def add(project_id: int, email: str, role: str, actor: Actor) -> Change[Member]:
    """Add a member by e-mail address.

    Raises LookupError for an unknown project. The writes raise ValueError for a known member.
    """
    projects.find(project_id)
    email = email.strip()
    if role not in ROLES or "@" not in email:
        raise ValueError("a member has an e-mail address, and a role of owner, member or viewer")
    now = clock.iso(clock.now())
    row = {
        "pk": _pk(project_id),
        "sk": _hash(email),
        "kind": "member",
        "email": email,
        "member_role": role,
        "added_at": now,
    }
    known = table.Refusal(lambda _: ValueError(f"{email} is a member of project {project_id} already"))
    invitation = table.Put(_invitation(project_id, email), refusal=known)
    entry = audit.entry(project_id, actor, "member.added", email, after={"role": role})
    return Change(_of_row(row), [table.Put(row, refusal=known), invitation, entry])


def remove(project_id: int, email: str, actor: Actor, *, keep_an_owner: bool = True) -> Change[Member]:
    """Remove a member, as `remove_by_id` does."""
    return remove_by_id(project_id, with_email(project_id, email).id, actor, keep_an_owner=keep_an_owner)


def remove_by_id(project_id: int, id: str, actor: Actor, *, keep_an_owner: bool = True) -> Change[Member]:
    """Remove a member, who loses access immediately.

    Raises LookupError for an unknown member, and LastOwner if nobody else owns the project and somebody must.
    """
    row = _find(project_id, id)
    bound = "person" in row
    pointer = _pk_of_person(row["person"]) if bound else _invited(row["email"])
    # The member may join or get another role between the read and the write.
    unchanged = table.equals("person", row.get("person")) & table.equals("member_role", row["member_role"])
    writes: Sequence[table.Write] = [
        table.Delete(row["pk"], row["sk"], unchanged),
        table.Delete(pointer, _number(project_id)),
        *(_other_owner_checks(row) if keep_an_owner else []),
        audit.entry(project_id, actor, "member.removed", row["email"], before={"role": row["member_role"]}),
    ]
    return Change(_of_row(row), writes)


def change_role(project_id: int, id: str, role: str, actor: Actor) -> Change[Member]:
    """Give a member another role, from the next request on.

    Raises LookupError for an unknown member, ValueError for an unknown role, and LastOwner if the member is the only
    owner.
    """
    if role not in ROLES:
        raise ValueError("a role is owner, member or viewer")
    row = _find(project_id, id)
    before = row["member_role"]
    if before == role:
        return Change(_of_row(row))
    same_role = table.equals("member_role", before)
    update = table.Update(row["pk"], row["sk"], set={"member_role": role}, condition=same_role)
    entry = audit.entry(
        project_id, actor, "member.role_changed", row["email"], before={"role": before}, after={"role": role}
    )
    return Change(_of_row(row | {"member_role": role}), [update, *_other_owner_checks(row), entry])


def rebind(project_id: int, email: str, actor: Actor) -> Change[Member]:
    """Let the next sign-in with a member's verified address bind the member again. The present identity loses access.

    It is for a new sign-in provider or user pool, in which everybody has a new identity. Nothing changes for a member
    who has not joined. Raises LookupError for an unknown member.
    """
    row = _find(project_id, _hash(email.strip()))
    if "person" not in row:
        return Change(_of_row(row))
    same_person = table.equals("person", row["person"])
    unbound = table.Update(row["pk"], row["sk"], set={"person": None, "joined_at": None}, condition=same_person)
    writes: Sequence[table.Write] = [
        unbound,
        table.Delete(_pk_of_person(row["person"]), _number(project_id)),
        table.Put(_invitation(project_id, row["email"])),
        audit.entry(project_id, actor, "member.rebound", row["email"]),
    ]
    return Change(_of_row({**row, "joined_at": None}), writes)


def find(project_id: int, id: str) -> Member:
    """The member with this id. Raises LookupError."""
    return _of_row(_find(project_id, id))


def with_email(project_id: int, email: str) -> Member:
    """The member with this e-mail address. Raises LookupError."""
    row = table.get(_pk(project_id), _hash(email.strip()))
    if row is None:
        raise LookupError(f"project {project_id} has no member {email}")
    return _of_row(row)


def is_only_with(owner: Person, member: Member) -> bool:
    """Whether a member has joined, and belongs to no project but those of which `owner` is an owner.

    Somebody who may weaken how a person signs in could otherwise add a person of another project to their own first.
    """
    row = _find(member.project_id, member.id)
    if "person" not in row:
        return False
    invited = [int(one["sk"]) for page in table.query(_invited(member.email), limit=100) for one in page]
    joined = [one.project_id for one in person(row["person"]).memberships]
    owned = {one.project_id for one in owner.memberships if one.may(OWNER)}
    return owned.issuperset(invited + joined)


def of_project(project_id: int) -> list[Member]:
    """The members of a project, by e-mail address. Raises LookupError for an unknown project."""
    projects.find(project_id)
    rows = [row for page in table.query(_pk(project_id), limit=100, forward=True) for row in page]
    return sorted((_of_row(row) for row in rows), key=lambda member: member.email.lower())


def is_invited(email: str) -> bool:
    """Whether a project waits for the first sign-in of this e-mail address."""
    return any(page for page in table.query(_invited(email), limit=1))


def join(person_id: str, email: str, actor: Actor) -> None:
    """Bind a person to every member that was added with their verified e-mail address and has not joined yet."""
    invitations = [row for page in table.query(_invited(email), limit=100, forward=True) for row in page]
    for invitation in invitations:
        project_id = int(invitation["sk"])
        now = clock.iso(clock.now())
        member = table.Update(
            _pk(project_id),
            _hash(email),
            set={"person": person_id, "joined_at": now},
            condition=table.PRESENT & table.equals("person", None),
        )
        pointer = {"pk": _pk_of_person(person_id), "sk": invitation["sk"], "kind": "project_of_person"}
        entry = audit.entry(project_id, actor, "member.joined", email)
        writes: Sequence[table.Write] = [
            member,
            table.Delete(invitation["pk"], invitation["sk"]),
            table.Put(pointer | {"member": _hash(email)}),
            entry,
        ]
        # The member was removed or has joined meanwhile, or the person is a member by another address.
        with suppress(table.ConditionFailed):
            table.write(writes)


def person(id: str, others: Sequence[tuple[str, str]] = ()) -> Person:
    """The projects of the person with this id, and the end of their earlier sessions. Reads `others` with them."""
    rows = [row for page in table.query(_pk_of_person(id), limit=100, forward=True) for row in page]
    signed_out_at = next((row["signed_out_at"] for row in rows if row["sk"] == _SESSIONS), clock.EPOCH)
    pointers = {int(row["sk"]): row["member"] for row in rows if row["sk"] != _SESSIONS}
    keys = [key for number, sk in pointers.items() for key in ((_pk(number), sk), projects.row_key(number))]
    known = table.get_many([*keys, *others])
    memberships = []
    for number, sk in pointers.items():
        member, project = known.get((_pk(number), sk)), known.get(projects.row_key(number))
        if member and project and member.get("person") == id:
            memberships.append(Membership(number, project["name"], MemberRole(member["member_role"])))
    return Person(tuple(memberships), signed_out_at, table.Rows(others, known))


def end_sessions(person_id: str) -> None:
    """End all present sessions of a person."""
    pk, now = _pk_of_person(person_id), clock.now()
    op = table.Update(pk, _SESSIONS, set={"kind": "sessions", "signed_out_at": now}, condition=table.ALWAYS)
    table.write([op])


_SESSIONS = "sessions"


def _find(project_id: int, id: str) -> table.Row:
    row = table.get(_pk(project_id), id)
    if row is None:
        raise LookupError(f"project {project_id} has no such member")
    return row


def _other_owner_checks(row: table.Row) -> list[table.Check]:
    """The check that somebody else owns the project, if this member's row is an owner's. Raises LastOwner."""
    if row["member_role"] != OWNER:
        return []
    rows = (other for page in table.query(row["pk"], limit=100, forward=True) for other in page)
    other = next((one for one in rows if one["member_role"] == OWNER and one["sk"] != row["sk"]), None)
    if other is None:
        raise LastOwner
    return [table.Check(other["pk"], other["sk"], table.equals("member_role", OWNER))]


def _pk(project_id: int) -> str:
    return f"P#{project_id}#members"


def _pk_of_person(person_id: str) -> str:
    return f"PERSON#{person_id}"


def _invited(email: str) -> str:
    return f"INVITED#{_hash(email)}"


def _invitation(project_id: int, email: str) -> table.Row:
    return {"pk": _invited(email), "sk": _number(project_id), "kind": "invitation"}


def _number(project_id: int) -> str:
    return f"{project_id:010d}"


def _hash(email: str) -> str:
    return hashlib.sha256(email.lower().encode()).hexdigest()[:32]


def _of_row(row: table.Row) -> Member:
    project_id = int(row["pk"].split("#")[1])
    role = MemberRole(row["member_role"])
    return Member(row["sk"], project_id, row["email"], role, row["added_at"], row.get("joined_at"))
