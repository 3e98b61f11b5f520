"""The lists' filter by customer, which takes what the find box takes."""

from __future__ import annotations

import urllib.parse

import pytest

from shared.admin import members
from tests.support.admin_client import Browser, Whole, signed_in
from tests.support.client_actions import unique
from tests.support.resources import create_resource
from tests.support.stage import Stage

LISTS = ("appointments", "sessions", "conversations")


@pytest.fixture
def member(stage: Stage, whole: Whole) -> Browser:
    return signed_in(stage, "filter@example.com", {whole.story.project.id: members.MEMBER})


def somebody(stage: Stage, name: str, phone: str = "+12125550171") -> str:
    """The id of a new customer with an appointment and a conversation."""
    id = str(create_resource(stage, "/v1/customers", phone=phone, name=name)["id"])
    create_resource(
        stage, "/v1/appointments", customer_id=id, appointment_at="2031-05-06T07:08:09Z", title=f"Visit of {name}"
    )
    create_resource(stage, "/v1/conversations", customer={"id": id})
    return id


@pytest.mark.parametrize("section", LISTS)
@pytest.mark.parametrize("typed", ["zo quetzal", "0172", "+1 212 555 0172", "{id}"])
def test_a_list_is_filtered_by_what_finds_one_customer(
    stage: Stage, whole: Whole, member: Browser, section: str, typed: str
) -> None:
    mark = unique("Quetzal")
    id = somebody(stage, f"Zoë {mark}", "+12125550172")
    page = f"{whole.story.path}/{section}"
    text = typed.format(id=id).replace("quetzal", mark.lower())
    query = urllib.parse.urlencode(member.get(page).form(page) | {"customer": text})
    found = member.get(f"{page}?{query}")
    assert found.location == f"{page}?customer_id={id}"
    shown = member.get(found.location)
    assert f"Zoë {mark}" in shown.form(page).values()
    assert "Ada" not in shown.page.text


def test_other_filters_stay_and_the_name_is_kept_changed_or_removed(
    stage: Stage, whole: Whole, member: Browser
) -> None:
    names = [f"{name} {unique('Quetzal')}" for name in ("Zoë", "Max")]
    zoe, max_ = (somebody(stage, name) for name in names)
    page = f"{whole.story.path}/appointments"
    form = member.get(f"{page}?customer_id={zoe}").form(page)

    def sent(**typed: str) -> str:
        return f"{page}?{urllib.parse.urlencode(form | typed)}"

    kept = member.get(sent(status="pending"))
    assert kept.status == 200
    assert (names[0] in kept.page.text, names[1] in kept.page.text) == (True, False)
    assert member.get(sent(status="pending", customer=names[1])).location == f"{page}?status=pending&customer_id={max_}"
    removed = member.get(sent(customer=""))
    assert (names[0] in removed.page.text, names[1] in removed.page.text) == (True, True)


def test_several_customers_are_offered_and_nobody_is_said(stage: Stage, whole: Whole, member: Browser) -> None:
    mark = unique("Quetzal")
    ids = [somebody(stage, f"{name} {mark}") for name in ("Zoë", "Max")]
    page = f"{whole.story.path}/appointments"
    shown = member.get(f"{page}?status=pending&customer={mark}")
    assert shown.status == 200
    assert "Choose the customer" in shown.page.text
    assert "Visit of" not in shown.page.text, "it is not yet clear whose"
    for id in ids:
        assert f'href="?status=pending&amp;customer_id={id}"' in shown.text
    assert "No customer has this name" in member.get(f"{page}?customer=nobody+at+all").page.text
