"""People and appointments, found by what somebody at a desk knows of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from infra.manage.customers import renew_search_rows
from shared.admin import members
from shared.appointments.resource import APPOINTMENTS
from shared.core import ids
from shared.customers.resource import CUSTOMERS
from shared.erasure import erasing
from shared.resources import search
from shared.store import table
from shared.store.keys import Scope
from tests.support import erasures
from tests.support.admin_client import Browser, Shown, as_test, database_calls, signed_in
from tests.support.client_actions import unique
from tests.support.concurrency import just_before
from tests.support.resources import create_resource
from tests.support.stage import Stage

WHEN = "2031-05-06T07:08:09Z"


@dataclass(frozen=True)
class Desk:
    """A member of a new project, which the stage calls as."""

    browser: Browser
    scope: Scope

    @property
    def path(self) -> str:
        return f"/admin/projects/{self.scope.project_id}/test"

    def find(self, text: str, **headers: str) -> Shown:
        return self.browser.get(f"{self.path}/find?q={quote(text)}", **headers)

    def found(self, text: str) -> list[str]:
        """The ids of the customers and appointments that the list has, in its order, or of the one that it goes to."""
        shown = self.find(text)
        assert shown.status in (200, 303, 404)
        where = shown.location if shown.status == 303 else shown.text
        return re.findall(r"/(?:customers|appointments)/(\w+)", where)


@pytest.fixture
def desk(stage: Stage) -> Desk:
    project = stage.project()
    browser = signed_in(stage, f"{unique('desk')}@example.com", {project.id: members.MEMBER})
    return Desk(browser, Scope(project.id, False))


def person(stage: Stage, name: str | None, phone: str = "+12125550199", **others: str) -> str:
    id: str = create_resource(stage, "/v1/customers", phone=phone, name=name, **others)["id"]
    return id


def test_people_are_found_by_the_beginnings_of_words_of_the_name(stage: Stage, desk: Desk) -> None:
    zoe = person(stage, "Zoë Müller-Lüdenscheid")
    jose = person(stage, "JOSÉ O'Brien Müller")
    both = sorted((zoe, jose))
    for text in ("zoe", "ZOË", "lüden", "ludenscheid zo", "müll zoë", "  Mu\u0308ller,  z"):
        assert desk.found(text) == [zoe], text
    for text in ("obrien", "o\u2019bri jos", "muller o'brien josé"):
        assert desk.found(text) == [jose], text
    assert sorted(desk.found("mull")) == both
    for text in ("uller", "zoe josé", "muller brien", "zoemuller"):
        assert desk.found(text) == [], text


def test_whole_words_come_first_and_then_the_order_of_the_alphabet(stage: Stage, desk: Desk) -> None:
    people = {name: person(stage, name) for name in ("Annabel Abt", "Anna Zorn", "Ann Wolf", "Eva Ann")}
    assert desk.found("ann") == [people[name] for name in ("Eva Ann", "Ann Wolf", "Anna Zorn", "Annabel Abt")]


@pytest.mark.parametrize(
    "text",
    ["346", "2346", "1234 2346", "+49 170 12342346", "0170/1234-2346", "0049 (0)170 12342346", "+49 (0) 170 1234 2346"],
)
def test_people_are_found_by_the_last_digits_of_the_phone_in_any_notation(stage: Stage, desk: Desk, text: str) -> None:
    other = person(stage, "Other", "+4917012342345")
    one = person(stage, None, "+4917012342346")
    assert desk.found(text) == [one]
    assert other not in desk.found("46"), "two digits are too few"


def test_appointments_are_found_by_their_titles_the_newest_first(stage: Stage, desk: Desk) -> None:
    who = person(stage, "Grace Hopper")
    made = [
        create_resource(stage, "/v1/appointments", customer_id=who, appointment_at=WHEN, title=title)["id"]
        for title in ("Root canal", "Canal inspection", "Root canal", None)
    ]
    # Each entry has the appointment's link only.
    assert desk.found("root") == [made[2], made[0]]
    assert desk.found("can ins") == [made[1]]
    shown = desk.find("canal").page.text
    assert "Grace Hopper" in shown
    assert "Tue 6 May 2031, 07:08" in shown


def test_what_is_found_follows_every_change(stage: Stage, desk: Desk) -> None:
    id = person(stage, "Ada Byron", "+12125550171")
    path = f"/v1/customers/{id}"
    assert stage.call("PATCH", path, {"name": "Ada Lovelace", "do_not_call": True}).status == 200
    assert [desk.found(text) for text in ("byron", "lovelace", "0171")] == [[], [id], [id]]
    assert stage.call("PATCH", path, {"phone": "+12125550172", "name": None}).status == 200
    assert [desk.found(text) for text in ("lovelace", "0171", "0172")] == [[], [], [id]]
    edit = f"{desk.path}/customers/{id}/edit"
    assert desk.browser.submit(edit, edit, name="Ada King").status == 303
    assert desk.found("king") == [id]
    appointment = create_resource(stage, "/v1/appointments", customer_id=id, appointment_at=WHEN, title="Fitting")["id"]
    assert stage.call("PATCH", f"/v1/appointments/{appointment}", {"title": "Repair"}).status == 200
    assert [desk.found(text) for text in ("fitting", "repair")] == [[], [appointment]]
    assert stage.call("DELETE", f"/v1/appointments/{appointment}").status == 200
    assert stage.call("DELETE", path).status == 200
    assert [desk.found(text) for text in ("king", "0172", "repair")] == [[], [], []]
    assert [*search_rows(desk.scope)] == []


def test_a_customer_whom_a_conversation_creates_is_found(stage: Stage, desk: Desk) -> None:
    made = create_resource(stage, "/v1/conversations", customer={"name": "Noor Haddad", "email": "noor@example.com"})
    assert desk.found("hadd") == [made["customer_id"]]


def test_other_projects_and_the_other_mode_find_nothing(stage: Stage, desk: Desk) -> None:
    project = stage.project()
    person(stage, "Secret Agent", "+12125550007")
    for text in ("secret", "0007"):
        assert "Nothing found" in desk.browser.get(f"{desk.path}/find?q={text}").page.text
        assert desk.browser.get(f"/admin/projects/{project.id}/test/find?q={text}").status == 404
        other = signed_in(stage, f"{unique('other')}@example.com", {project.id: members.VIEWER})
        assert "Nothing found" in other.get(f"/admin/projects/{project.id}/live/find?q={text}").page.text
        assert other.get(f"/admin/projects/{project.id}/test/find?q={text}").status == 303


def test_what_is_typed_gets_a_list_without_a_page(stage: Stage, desk: Desk) -> None:
    id = person(stage, "Rosa <b>Parks</b>")
    typed = desk.find("ros par", **{"HX-Request": "true"})
    assert typed.status == 200
    assert f"/customers/{id}" in typed.text
    assert "<html" not in typed.text
    assert "<b>" not in typed.text
    assert "1 found" in typed.text
    assert "1 found" in desk.find(id, **{"HX-Request": "true"}).text
    assert "Press Enter" in desk.find("sess_1", **{"HX-Request": "true"}).text
    assert desk.find("", **{"HX-Request": "true"}).page.text == ""


def test_the_list_of_customers_finds_what_the_find_box_finds(stage: Stage, desk: Desk) -> None:
    id = person(stage, "Wangari Maathai")
    form = desk.browser.get(f"{desk.path}/customers").page
    assert [action for action, fields in form.forms if "q" in fields] == [f"/dev{desk.path}/find"] * 2
    assert desk.find("maa wan").location == f"{desk.path}/customers/{id}"


def test_a_new_appointment_finds_its_customer_by_name(stage: Stage, desk: Desk) -> None:
    one = person(stage, "Ines Alvarez")
    person(stage, "Ines Zapata")
    chosen = desk.browser.get(f"{desk.path}/appointments/new?customer=alva+ines&at=2031-05-06T09:00")
    assert chosen.location.startswith(f"{desk.path}/customers/{one}/new_appointment")
    assert "Ines Zapata" in desk.browser.get(f"{desk.path}/appointments/new?customer=ines").page.text


def test_an_erasure_leaves_no_search_row_also_of_a_title_that_changes_meanwhile(stage: Stage, desk: Desk) -> None:
    scope = desk.scope
    id = person(stage, "Ada Lovelace")
    appointment = create_resource(stage, "/v1/appointments", customer_id=id, appointment_at=WHEN, title="Fitting")["id"]
    assert len([*search_rows(scope)]) == 4
    row = APPOINTMENTS.row(scope, appointment)
    assert row is not None

    def rename() -> None:
        assert stage.call("PATCH", f"/v1/appointments/{appointment}", {"title": "Another name"}).status == 200

    with as_test(), just_before("TransactWriteItems", rename):
        erasing._remove_appointment(scope, row)
    assert not [sk for sk in search_rows(scope) if appointment in sk]
    assert stage.call("DELETE", f"/v1/customers/{id}").status == 200
    assert [*search_rows(scope)] == []


def test_a_stage_may_do_without(stage: Stage, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = person(stage, "Ada Byron")
    monkeypatch.setenv("SEARCH", "0")
    later = person(stage, "Ada King", external_id="p-9")
    assert [sk for sk in search_rows(desk.scope) if later in sk] == []
    shown = desk.find("king")
    assert "Nothing found" in shown.page.text
    assert "setting search is off" in shown.page.text
    # What was written before goes with the next change of the name or phone, or the deletion.
    assert stage.call("PATCH", f"/v1/customers/{before}", {"name": "Ada Lovelace"}).status == 200
    assert [*search_rows(desk.scope)] == []
    monkeypatch.setenv("SEARCH", "1")
    assert stage.call("PATCH", f"/v1/customers/{later}", {"name": "Ada Noel King"}).status == 200
    assert desk.found("king") == [later]


def test_common_words_are_found_with_their_neighbours_by_a_fixed_number_of_reads(stage: Stage, desk: Desk) -> None:
    scope = desk.scope
    with as_test():
        for first in range(0, search.EXAMINED + 60, 60):
            writes = []
            for number in range(first, first + 60):
                pk = scope.index(CUSTOMERS.kind, "word", "s")
                writes.append(table.Put({"pk": pk, "sk": f"smith b{number:06}#{ids.new('cust_')}", "kind": "search"}))
            table.write(writes)
    one = person(stage, "Zeno Smith", "+12125550188")
    assert "There may be more" in desk.find("smith zeno").page.text
    assert one in desk.found("zeno smith")
    assert one in desk.found("smith z")
    alone = person(stage, "Smith", "+12125550187")
    assert desk.found("smith")[0] == alone
    assert "There may be more" in desk.find("smith").page.text
    few = person(stage, "Quill Rare")
    person(stage, "Quill Rare")
    calls = database_calls(desk.browser, f"{desk.path}/find?q=quill+rare")
    assert few in desk.found("quill rare")
    assert calls.count("Query") <= database_calls(desk.browser, f"{desk.path}/find?q=smith+zeno").count("Query") - 2
    assert len(calls) <= 10


def search_rows(scope: Scope) -> Iterator[str]:
    """The sort keys of the scope's search rows."""
    for (pk, sk), row in erasures.rows().items():
        if pk.startswith(scope.pk("")) and row["kind"] == "search":
            yield sk


def test_what_was_stored_before_gets_its_rows_and_loses_them(
    stage: Stage, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH", "0")
    old = person(stage, "Old Hand")
    create_resource(stage, "/v1/appointments", customer_id=old, appointment_at=WHEN)
    monkeypatch.setenv("SEARCH", "1")
    person(stage, "New Hand")
    with as_test():
        assert [renew_search_rows(one, desk.scope) for one in (CUSTOMERS, APPOINTMENTS)] == [1, 0]
        assert renew_search_rows(CUSTOMERS, desk.scope) == 0
        assert desk.found("old hand") == [old]
        monkeypatch.setenv("SEARCH", "0")
        assert renew_search_rows(CUSTOMERS, desk.scope) == 2
    assert [*search_rows(desk.scope)] == []
