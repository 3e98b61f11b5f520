"""How people write: at least fifty everyday phrasings of each intent, and what the agent does with each."""

from __future__ import annotations

import pytest

from tests.support.dialogues import Dialogue, dental

CONFIRM = """
Confirm
Confirmed
Confirmed!
I confirm
I confirm my appointment
Please confirm my appointment.
Go ahead and confirm my appointment
Yes, please confirm it
Yes, confirm
I'd like to confirm my appointment
I would like to confirm
I want to confirm my appointment please
I am writing to confirm my appointment
Just confirming my appointment
Just wanted to confirm my appointment
Hi, I just want to confirm my appointment on Friday
Can you confirm my appointment please?
Could you please confirm my appointment
You can confirm it
Please go ahead and confirm it
Hello, I confirm that I will be there
I'll be there
I will be there
Yes, I'll be there!
We'll be there
I'll be there on Friday
I'll definitely be there
I will definitely come
I'm coming
Yes I'm coming
I am coming on Friday
I'll come
Yes, I will come
I will attend
I'll attend my appointment
I can make it
Yes, I can make it
I can come
Yes that works, I'll be there
Looking forward to it, see you then
Great, I'll be there
Count me in
Sounds good, see you then
I'm confirming my appointment
i confirm the appointment thanks
pls confirm my appointment
Confirm it pls
I accept the appointment
Put me down as confirmed
Thank you, I confirm the appointment
Yes, I'll attend
I'll be there, thanks
"""
CANCEL = """
Cancel
Cancel it
Please cancel
Cancel my appointment
Please cancel my appointment.
Cancel my appointment on Friday
Can you cancel my appointment?
Could you please cancel my appointment
I want to cancel
I'd like to cancel my appointment
I would like to cancel please
I need to cancel
I need to cancel my appointment on Friday
I have to cancel
I have to cancel my appointment, sorry
Sorry, I have to cancel
I must cancel my appointment
Hi, I need to cancel my visit
Unfortunately I have to cancel
I'm sick, I need to cancel
Please cancel my appointment, I'm ill
I am writing to cancel my appointment
Just wanted to cancel my appointment
Go ahead and cancel it
Please go ahead and cancel my appointment
Cancellation please
I'd like a cancellation
cancel pls
pls cancel my appt
plz cancel
Cancel the appointment
Cancel this appointment please
Cancel the one on Friday
Cancel the dental check-up
I can't make it, please cancel
I can't come on Friday, please cancel my appointment
Something came up, I need to cancel
Is it possible to cancel my appointment?
May I cancel my appointment?
Can I cancel?
How do I cancel my appointment?
I'm cancelling my appointment
I am canceling
I want my appointment cancelled
I'd like my appointment canceled please
Please remove my appointment
Delete my appointment
Drop my appointment
Call off my appointment
I won't be able to come, cancel it please
I no longer need the appointment, please cancel
We need to cancel
I wish to cancel
"""
MOVE = """
Move it
Move my appointment
Please move my appointment
Can you move my appointment?
Can we move it?
Reschedule
I need to reschedule
I'd like to reschedule my appointment
I would like to reschedule
I want to reschedule
Can I reschedule?
Could we reschedule please
Can you reschedule me?
Please reschedule my appointment
I have to reschedule
Sorry, I have to reschedule
Unfortunately I need to reschedule
Hi, I need to move my appointment
I need to change my appointment
I'd like to change the time of my appointment
Can I change my appointment?
Change my appointment please
Could you change the date?
I want another date
I need a different time
Can I have another time?
Is there another time?
Is it possible to move my appointment?
Postpone my appointment
I need to postpone
Can we postpone it?
Please postpone
Push back my appointment
Can we push it back?
Can you shift my appointment?
Can I come another day?
Could I come at another time?
I'd prefer another day
That time does not work for me, can we move it?
I can't make it on Friday, can we reschedule?
I'm ill, can we postpone my appointment?
Go ahead and move my appointment
I am writing to reschedule my appointment
pls reschedule
resched my appt pls
rebook my appointment
I'd like to rebook
Can I get a later appointment?
Could I come earlier?
We need to move our appointment
I wish to reschedule
May I reschedule?
"""
PERSON = """
a person please
I want to speak to a person
I want to talk to a person
Let me talk to a human
Let me speak to someone
Let me speak with a real person
Can I speak to a human?
Can I talk to someone?
Can I speak with somebody?
Could I speak to a person please
I'd like to speak to someone
I would like to talk to a human
I need to speak to a person
I need to talk to someone
I need a human
I want a human
Human please
Human
human!
Real person please
Agent
Agent please
Operator
Operator please
Representative
Talk to an agent
Speak to an agent
Speak to a representative please
Connect me to a person
Connect me with an agent
Please connect me to a human
Transfer me to a person
Transfer me to someone please
Put me through to someone
Put me through to a person please
Get me a human
Give me a real person
I don't want to talk to a bot
I don't want to talk to a machine, I want a person
Can a person help me?
Can a human call me back?
Is there a human I can talk to?
Is there someone I can talk to?
May I speak to someone?
I'd rather talk to a person
I prefer to talk to a human
I want to speak with the receptionist
Can I talk to the receptionist?
Can I speak to your staff?
I want to talk to your manager
Let me talk to the manager
I would like to speak with a member of staff
Can someone from your team help me?
Ask someone to get back to me
Have someone contact me
"""
CALL = """
Call me
Call me please
Please call me
please call me back
Can you call me?
Can you call me please?
Could you call me?
Could you please call me back
Can someone call me?
Would you call me please
I'd like you to call me
I want you to call me
I need you to call me
Phone me
Please phone me
Can you phone me?
Ring me
Ring me please
Give me a call
Please give me a call
Can you give me a call?
Could you give me a ring?
Give me a ring please
Call me now
Call me now please
Please call me now
Call me back
Call me back please
Can you ring me?
Can you call me now?
Call us
Please call us back
Hi, please call me
Hello, can you call me?
Call me, thanks
ok call me
Yes, call me please
Just call me
Just give me a call
Go ahead and call me
I'd like a call
I would like a call back please
I want a phone call
I'd like to be called
I would like to be called back
Can I get a call?
Can I have a call back?
Could I get a phone call please
pls call me
call me pls
call me asap
Please call me as soon as possible
"""
LIST = """
When is my appointment?
when is my appointment
When's my appointment?
What time is my appointment?
What time is it?
When is it?
when is it again?
At what time is my appointment?
What time do I have to be there?
When do I have to come?
When should I be there?
When am I coming?
When do I come in?
Where is my appointment?
Where do I have to go?
Where is it?
What day is my appointment?
On which day is my appointment?
Which day is it?
What date is my appointment?
What appointments do I have?
What are my appointments?
Which appointments do I have?
Show my appointments
Show me my appointments
List my appointments
list
List all appointments please
Do I have an appointment?
Do I have any appointments?
Do I have an appointment this week?
Have I got an appointment?
Is my appointment on Friday?
Is my appointment at 14:30?
Is my appointment confirmed?
When is my next appointment?
What is my next appointment?
When's my next visit?
What do I have booked?
Can you tell me when my appointment is?
Could you tell me the time of my appointment?
Tell me when my appointment is
Please tell me my appointments
Remind me when my appointment is
I forgot when my appointment is
I don't remember when my appointment is
I'd like to know when my appointment is
I want to know the time of my appointment
Can you check when my appointment is?
Can you look up my appointment?
Hi, when am I booked?
what time again?
My appointments please
Which time was it?
"""
WITH_TIME = (
    "Can we move it to Monday at 10:00?",
    "Please move my appointment to Monday at 10am",
    "Reschedule to Monday at 10:00 please",
    "Could you reschedule my appointment to next Monday at 10 am?",
    "I'd like to come on Monday at 10:00 instead",
    "Can I come on Monday at 10:00 instead?",
    "Change it to Monday at 10 am please",
    "Go ahead and move it to Monday at 10:00",
    "Monday at 10:00 would be better",
)
NOT = """
Don't confirm
Don't cancel it
Please do not cancel my appointment
I don't want to cancel
I do not want to move it
I can't confirm yet
I'm not coming
I won't be there
I will not be there
I can't make it
I'm not sure if I can make it
I don't know if I'll be there
Maybe I'll be there
I might come
Will I be there?
If I can make it I'll come
I'll be there if I can
I'd confirm if it was later
My husband wants to confirm his appointment
Did you confirm my appointment?
Was it confirmed?
Did I cancel my appointment?
What happens if I cancel?
Can I cancel later?
Don't call me
No need to call me
You don't have to call me
Did you call me?
Why did you call me?
Who called me?
You can call me
Feel free to call me
I confirm that I am not coming
I can make it, or can't I?
Do I want another time?
My manager wants to talk to you
"""


def texts(listed: str) -> list[str]:
    return listed.strip().splitlines()


def test_at_least_fifty_of_each_are_listed_once() -> None:
    for listed in (CONFIRM, CANCEL, MOVE, PERSON, CALL, LIST):
        assert len({*texts(listed)}) == len(texts(listed)) >= 50


@pytest.mark.parametrize("text", texts(CONFIRM))
def test_a_confirmation(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say(text)
    assert dialogue.actions == ["appointment_confirmed"]


@pytest.mark.parametrize("text", texts(CANCEL))
def test_a_cancellation(text: str) -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say(text).startswith("Shall I cancel **Dental check-up**")
    assert dialogue.untouched()


@pytest.mark.parametrize("text", texts(MOVE))
def test_a_wish_to_move_it(text: str) -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say(text).startswith("When shall I move **Dental check-up**")
    assert dialogue.untouched()


@pytest.mark.parametrize("text", WITH_TIME)
def test_a_wish_to_move_it_to_a_time(text: str) -> None:
    dialogue = Dialogue(dental())
    assert "to **Monday 8 March 2027 at 10:00**" in dialogue.say(text)
    assert dialogue.untouched()


@pytest.mark.parametrize("text", texts(PERSON))
def test_a_wish_for_a_person(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say(text)
    assert dialogue.actions == ["handoff"]


@pytest.mark.parametrize("text", texts(CALL))
def test_a_wish_for_a_call(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say(text)
    assert dialogue.result.wants_call


@pytest.mark.parametrize("text", texts(LIST))
def test_a_question_for_the_appointment(text: str) -> None:
    dialogue = Dialogue(dental())
    assert dialogue.say(text).startswith("You have one upcoming appointment: **Dental check-up**")
    assert dialogue.untouched()


@pytest.mark.parametrize("text", texts(NOT))
def test_what_is_none_of_these_does_nothing(text: str) -> None:
    dialogue = Dialogue(dental())
    dialogue.say(text)
    assert dialogue.untouched()
    assert not dialogue.result.wants_call
