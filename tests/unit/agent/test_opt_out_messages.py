"""Which messages are a wish not to be called or written to again (promises 11)."""

from __future__ import annotations

import pytest

from shared.agent import Reply, opt_out_messages
from shared.agent.tools import Tools
from shared.agent.turn import AppointmentProposal, OptOutQuestion, TurnInput, TurnResult, read_proposal

OPTS_OUT = """
stop
STOP
Stop.
Stop!
please stop
stop it
stop all
STOPALL
unsubscribe
Unsubscribe please
opt out
opt-out
remove me
take me off
quit
no more
Do not call me again
Don't call me again.
don\u2019t call me again
dont call me again
Please do not call me again!
please don't call me any more
Don't call me anymore, please.
Don't ever call me again
Never call me again.
Never contact me again
Do not contact us again
Please don't contact me.
Do not write to me again.
Don't text me again
Please don't text or call me again
Don't message me ever again
Do not call here again
Do not call this number again
Do not call again.
Stop calling me
Stop calling!
Please stop calling me.
Stop calling us, please
Stop texting me
stop messaging me now
Stop contacting me. Thanks.
Stop calling and texting me
Stop bothering me
Stop these calls
Stop all calls
Please stop sending me messages
I don't want to be called again
I do not want to be called any more.
I don't want to be contacted
We don't want to be contacted again
I no longer wish to be contacted
I don't want to hear from you again
I don't want any more calls
I do not want any more calls from you.
I don't wish to receive any more messages from your clinic
I don't want you to call me again
I don't want you calling me
I want you to stop calling me
I would like to be removed from your list
I'd like to be taken off your list
I want to be removed from your database
I'd rather not be contacted again
I'd prefer not to be called
I'd rather you didn't call me again
Remove me from your list
Please remove my number
Remove my phone number from your system
Delete my number, please.
Please delete my number from your records
Take me off your list
Take my number off your list please
Please take me off the mailing list
Lose my number
Opt me out
Unsubscribe me
Put me on your do-not-call list
I want to opt out
I'd like to unsubscribe
No more calls
No more calls please.
No more calls or messages
No more texts from you
Leave me alone
leave us alone, please
Never again call me
I told you to stop calling me
I've already asked you not to call me again
I have asked you to stop calling
Can you please stop calling me?
Could you not call me again?
You must not call me again
Hello, please stop calling me. Thank you.
No. Don't call me again.
No, please don't call me again
OK, thanks. And please do not contact me again.
I have moved to another city. Please do not call me again.
I found another dentist, please remove my number.
This is very annoying! Stop calling me!
Listen, stop calling me.
I said stop calling me
""".strip().splitlines()

OPTS_NOBODY_OUT = """
stop by at three
I'll stop by at three
Can I stop by tomorrow?
don't call before noon
Don't call me before noon
Please don't call me today
Don't call me now
Don't call me right now, I'm driving
Please don't call me at work
Don't call me so early
Don't call me while I am at work
Don't call me on Sunday
Don't call me in the morning
Don't call me back
Don't call me if nothing changes
Please do not call me until Friday
I can't talk now, call me later
Call me again tomorrow
Please call me
Why don't you call me?
Do not cancel my appointment
Don't cancel it
Do not move it
no
No, thank you
Not now
nope
no thanks, goodbye
Never mind
Forget it
Cancel my appointment
Please cancel it
cancel
I'd like to stop my treatment
The bus stop is far away
Which bus stop is closest?
Where do I stop?
It won't stop hurting
The bleeding did not stop
Should I stop taking my tablets?
When should I stop eating before the blood test?
Can I opt for another doctor?
Is there another option?
I am out of town
Remove the appointment on Friday
Remove my appointment
Delete my appointment
Take my appointment off Friday and put it on Monday
Can you remove a tattoo?
How much is it to remove a mole?
Take me to the second one
I want my wisdom tooth removed
My number has changed
My number is 555 0100
Which number do you have of me?
Please use my other number
Don't use my old number
Call my wife's number
Do you have my number?
Write to me
Please text me
Text me instead
Message received
I got your message
I did not get your message
I didn't get your call
You did not call me
Nobody called me
You called me twice
I missed your call
Sorry, I missed your call. Call me again, please.
I was told that you would call
Don't forget to call me
Do not forget to write to me
Don't hesitate to call me
Don't be afraid to call me
I never got a reminder
Please don't remind me at night
I want more reminders
More calls please
No more appointments on Mondays
No more sugar for me
I don't want any more treatments
I don't want the appointment any more
I do not want to come on Friday
I don't want to be late
I don't want to be a bother
I don't want to disturb you
Sorry to bother you
Sorry to bother you again
Don't bother
Leave it as it is
Leave it alone
Leave a message for me
I live alone
I quit smoking
I want to quit my job
Not again!
Again, please
Don't worry
Don't call it off
I don't call that early
I never call the clinic
Never
Never again in the morning
Contact my insurance
Please contact my doctor
How can I contact you?
Can I reach you by phone?
What is your phone number?
Is your phone list public?
Is there a waiting list?
I cancel my future plans
Do you need my consent?
Cancel the phone call on Friday
Cancel the call
Delete my second appointment
Put me on the waiting list
Take me off the waiting list for Friday
Remove Monday from the list of dates
Your list of prices, please
Stop calling me unless it is urgent!
What happens after I unsubscribe?
""".strip().splitlines()

UNCLEAR = """
My wife said don't call me again
Don't call me
Please do not call me.
"Do not call me again"
I never said stop calling me
Did I say don't call me again?
Should I tell you not to call me?
How do I unsubscribe?
How can I opt out?
I am tired of your calls
I am sick of these calls
I've had enough of your messages
I would like you to perhaps stop calling me so much, maybe
Maybe you should leave me alone
Do not call me, write to me only
I was just kidding, don't call me again
My husband wants no more calls
Stop calling this number, call my mobile
Don't call this number again, please call my new one
Please don't contact me. Contact my lawyer.
Do not text me again, email me
Don't call me again; just write
I revoke my consent
I don't consent to these calls
I no longer consent to being called
Remove me from this list
Please take my name off that list
Cancel all future calls
Enough with the calls
Delete my data
Forget my number
""".strip().splitlines()


@pytest.mark.parametrize("text", OPTS_OUT)
def test_an_explicit_wish_opts_out(text: str) -> None:
    assert opt_out_messages.opts_out(text)


@pytest.mark.parametrize("text", OPTS_NOBODY_OUT)
def test_anything_else_is_neither_a_wish_nor_asked_about(text: str) -> None:
    assert not opt_out_messages.opts_out(text)
    assert not opt_out_messages.may_opt_out(text)


@pytest.mark.parametrize("text", UNCLEAR)
def test_what_may_be_a_wish_opts_nobody_out_and_is_asked_about_once(text: str) -> None:
    reply = opt_out_messages.reply(TurnInput(appointments=(), message=text, customer_id="cust_1"))
    assert reply == Reply(opt_out_messages.QUESTION, TurnResult(proposed=OptOutQuestion()))


@pytest.mark.parametrize("text", ["How do I unsubscribe?", "I never said stop calling me", "I am tired of your calls"])
def test_what_may_be_a_wish_is_not_asked_about_twice(text: str) -> None:
    assert (
        opt_out_messages.reply(
            TurnInput(appointments=(), message=text, proposal=OptOutQuestion(), customer_id="cust_1")
        )
        is None
    )


AGREES = [
    "yes",
    "Yes, please.",
    "Yes, stop",
    "please do",
    "stop",
    "Do not call me again",
    "Yes, I would",
    "Don't call me",
]
AGREES += ["Yes, don't contact me", "Please do not call or write to me", "Yes, I want that"]


@pytest.mark.parametrize("text", AGREES)
def test_who_answers_yes_to_the_question_opts_out(text: str) -> None:
    reply = opt_out_messages.reply(
        TurnInput(appointments=(), message=text, proposal=OptOutQuestion(), customer_id="cust_1")
    )
    assert reply == Reply(
        opt_out_messages.OPTED_OUT_REPLY, TurnResult([{"type": "customer_opted_out", "customer_id": "cust_1"}])
    )


@pytest.mark.parametrize(
    "text", ["no", "No, thank you", "Yes? What do you mean", "When is my appointment?", "No, you may call me"]
)
def test_any_other_answer_opts_nobody_out(text: str) -> None:
    turn = TurnInput(appointments=(), message=text, proposal=OptOutQuestion(), customer_id="cust_1")
    assert opt_out_messages.reply(turn) is None
    assert Tools(turn).proposal is None


def opt_out_reply(turn: TurnInput) -> str | None:
    reply = opt_out_messages.reply(turn)
    return None if reply is None else reply.content


def test_stop_to_a_proposal_is_asked_about() -> None:
    proposal = AppointmentProposal("cancel", "appt_1", "2027-03-05T15:00:00.000Z")
    unclear = TurnInput(appointments=(), message="stop", proposal=proposal, customer_id="c")
    assert opt_out_reply(unclear) == opt_out_messages.QUESTION
    explicit = TurnInput(appointments=(), message="Do not call me again.", proposal=proposal, customer_id="c")
    assert opt_out_reply(explicit) == opt_out_messages.OPTED_OUT_REPLY


def test_the_question_is_stored_with_the_fields_that_earlier_releases_read() -> None:
    stored = '{"kind":"opt_out","appointment_id":"","present_at":"","at":null}'
    assert OptOutQuestion().to_json() == stored
    assert read_proposal(stored) == OptOutQuestion()


def test_a_stored_proposal_is_read_as_it_was() -> None:
    for proposal in (
        AppointmentProposal("cancel", "appt_1", "2027-03-05T15:00:00.000Z"),
        AppointmentProposal("reschedule", "appt_1", "2027-03-05T15:00:00.000Z", "2027-03-06T15:00:00.000Z"),
    ):
        assert read_proposal(proposal.to_json()) == proposal
    assert read_proposal(None) is None
