"""What people say to "Am I speaking with Ada Lovelace?" (promises 11)."""

from __future__ import annotations

import itertools

import pytest

from shared.agent import identity_answers
from shared.agent.identity_answers import Answer

NAME = "Ada Lovelace"
ANSWERS = {
    Answer.YES: """
Yes.
yes
Yes, speaking.
Speaking.
Yes, this is Ada.
This is Ada Lovelace.
This is she.
Yes, that's me.
That's me
It's me.
Yes it is
Yes, I am.
I am.
Yeah, that's me, hi.
Yep
Yup, you got her.
Ada here.
Ada Lovelace speaking
Mrs. Lovelace speaking.
Yes, this is Dr. Lovelace.
I'm Ada.
My name is Ada Lovelace, yes.
Hello, yes, this is she.
Hi, yes, speaking, how can I help you?
Yes, how are you?
Yes, hello!
Yes please.
Correct.
That's right.
You're speaking to her.
you are speaking with her
Yes, you are.
Indeed.
Oh, hi. Yes, I'm listening.
yes ma'am
""",
    Answer.WRONG: """
You have the wrong number.
Wrong number.
Sorry, wrong number!
I think you've got the wrong number.
No, I'm afraid you've dialed the wrong number.
This is the wrong number.
There is no one by that name here.
There's nobody here called Ada.
No one here by that name.
There is no Ada here.
No Ada here, sorry.
I don't know any Ada.
I don't know anyone called Ada Lovelace.
I don't know her.
Never heard of her.
She doesn't live here anymore.
Ada does not live here.
Ada moved out last year.
No, this isn't her number anymore.
This is not Ada's number.
She passed away in spring.
She has left the company.
wrong person
""",
    Answer.AWAY: """
No, she's not here.
She's not here right now.
Ada isn't in at the moment.
She is at work.
No, my wife is at work.
She's out.
She is asleep.
She's in a meeting, sorry.
He's not at home
Ada is not available right now, can I take a message?
No, she can't come to the phone right now.
I can't talk right now.
Can you call back later?
Call again tomorrow, please.
It's a bad time.
I'm driving.
Yes, but I'm busy.
Yes, but I can't talk now.
She'll be back at six.
Not now.
Yes, but this is not a good time.
No, she just left.
She's on the other line.
She's on holiday
""",
    Answer.WAIT: """
One moment, please.
Just a moment.
Hold on.
Hang on a second, I'll get her.
One second
Wait a minute.
Let me get her.
I'll put her on.
I'll see if she is in.
She's coming.
Please hold.
Yes, one moment.
I'll go and fetch her for you
""",
    Answer.WHO: """
Who is this?
Who's calling?
who is calling please
Who am I speaking to?
Yes, who is this?
May I ask who's calling?
What is this about?
What's this regarding?
Why are you calling?
Where are you calling from?
What company is this? Which company?
Who wants to know?
Who are you?
Are you a robot?
Is this a recording?
Pardon?
Sorry, can you repeat that?
Say that again, please.
I didn't catch that.
I can't hear you.
How did you get this number?
yes who's calling
""",
    Answer.OTHER: """
Hello?
Yes?
Hm.
No.
No, it's not.
Maybe.
No, this is her husband.
Yes, this is her husband.
This is Ada's mother.
Yes, this is Ada's phone.
Yes, I'm her assistant.
Yes, and I want to cancel.
Yes, this is Tom.
I'm not interested.
It depends.
Okay.
Is Ada the one with the bike?
Who, Ada? Yes or no?
Yes yes yes but no
She is my wife.
I am the babysitter.
It's Tom.
Hello, the Smiths.
""",
}
EXPECTED = [(text, meaning) for meaning, texts in ANSWERS.items() for text in texts.strip().splitlines()]


@pytest.mark.parametrize(("text", "meaning"), EXPECTED)
def test_an_answer_means_what_it_says(text: str, meaning: Answer) -> None:
    found = identity_answers.understand(text, NAME)
    # A question more does no harm.
    assert found == meaning or (meaning == Answer.OTHER and found == Answer.WHO)


@pytest.mark.parametrize(("text", "meaning"), EXPECTED)
def test_case_and_punctuation_make_no_yes(text: str, meaning: Answer) -> None:
    heard = " ".join("".join(sign for sign in text.lower() if sign.isalnum() or sign in " '").split())
    if meaning not in (Answer.YES, Answer.OTHER):
        assert identity_answers.understand(heard, NAME) == meaning
    elif text not in ("Yes?",):
        assert (identity_answers.understand(heard, NAME) == Answer.YES) == (meaning == Answer.YES)


def test_nobody_else_is_taken_for_the_person() -> None:
    beginnings = ("Yes, ", "Hello, ", "Yes. ", "Well, ", "", "Speaking, ")
    others = ("her husband", "Ada's mother", "her mother", "Tom", "the nanny", "his wife", "her assistant", "Mr. Smith")
    for beginning, verb, other in itertools.product(beginnings, ("this is", "I'm", "it's", "here is"), others):
        assert identity_answers.understand(f"{beginning}{verb} {other}.", NAME) != Answer.YES


def test_no_composition_with_somebody_elses_words_is_a_yes() -> None:
    listed = {meaning: texts.strip().splitlines() for meaning, texts in ANSWERS.items()}
    yes = listed[Answer.YES]
    others = [text for meaning in Answer if meaning not in (Answer.YES, Answer.OTHER) for text in listed[meaning]]
    others += [text for text in listed[Answer.OTHER] if not {"hello?", "yes?", "okay.", "no."} & {text.lower()}]
    for one, other, joint in itertools.product(yes, others, (" ", ", ", ". ", ", but ", " and ")):
        one_end = one.rstrip(".!")
        assert identity_answers.understand(f"{one_end}{joint}{other}", NAME) != Answer.YES, (one, joint, other)
        assert identity_answers.understand(f"{other.rstrip('.!')}{joint}{one}", NAME) != Answer.YES, (other, joint, one)


@pytest.mark.parametrize(
    "name", ["Will Yes", "No", "Speaking", "Mr. X", "?", "Ada (Mum)", ".*", "李", "O'Neil", "a" * 200]
)
def test_any_name_can_be_asked_for(name: str) -> None:
    assert identity_answers.understand("Yes, speaking.", name) == Answer.YES
    assert identity_answers.understand("No.", name) == Answer.OTHER
    assert identity_answers.understand("You have the wrong number.", name) == Answer.WRONG
    assert identity_answers.understand(name, name) in (Answer.OTHER, Answer.YES)


def test_a_long_speech_is_not_understood() -> None:
    assert identity_answers.understand("yes " * 100, NAME) == Answer.OTHER
