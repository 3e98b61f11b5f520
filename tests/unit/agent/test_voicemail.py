"""Who answers a call, a machine or a person, by the first words (promises 11).

The greetings and openings are as people record and say them; speech recognition often leaves out the punctuation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.agent import voicemail

GREETINGS = """
Hi, you've reached Ada. I can't come to the phone right now. Please leave a message after the beep.
Hello, this is Tom, leave a message and I'll get back to you.
You have reached the voicemail of Maria Lopez. Please leave your message after the tone.
Your call has been forwarded to an automated voice messaging system.
The person you are trying to reach is not available. At the tone, please record your message.
Please leave a message after the tone.
the number you have dialed is not in service
The subscriber you have called is not available at the moment, please try again later.
The mailbox is full and cannot accept any messages at this time. Goodbye.
Hey it's Jake, you know what to do, leave it after the beep.
Hi, we're not home right now. Leave your name and number and we'll call you back.
hi this is sam i can't take your call right now leave me a message
Welcome to the voice mail box of five five five zero one two three.
I'm sorry, I missed your call. Leave your name and number, and I'll return your call as soon as possible.
Hello, I'm unable to answer the phone right now. Please leave a brief message.
You've reached the Lovelace family. We can't come to the phone, but leave a message and we'll call back.
This is Dr. Brown's office. Our office hours are Monday to Friday. In an emergency, hang up and dial 911.
Thank you for calling. Our office is currently closed. Please leave a message.
Hi, this is Kate. I'm away from my desk. Please leave a message and I'll get back to you as soon as I can.
The customer you are calling is unavailable. Please leave your message after the signal.
The mobile you have called is switched off. Please try again later.
The phone you are calling is out of range.
Sorry, the person you've called is not available right now. Please leave a message.
hello you have reached the voicemail of
Hi. Leave a message.
Please record your message after the beep. When you have finished, hang up or press pound for more options.
At the tone, please record your message. When you are finished recording, you may hang up, or press 1 for more options.
hey this is mike sorry i missed you shoot me a text or leave a message and i'll hit you back
Hi, you've reached my cell phone. I'm probably in a meeting. Leave a message and I'll call you back.
Good day. I'm currently out of the office and will return on Monday. Please leave a message after the tone.
Hello! I'm not available at the moment. Please leave your name, number and a short message and I will get back to you.
No one is available to take your call. Please leave a message after the tone.
You've reached Anna. I can't answer right now. Text me!
Hi, this is Paul. I can't get to the phone right now, so leave a message.
This is the voicemail of David Green. I am either away from my desk or on another call.
Your call is being answered by an automatic voice message service.
The Google subscriber you have called is not available. Please leave a message after the tone.
Your call has been transferred to voicemail.
Hi there, we can't take your call. Please leave a message after the beep and have a great day.
Hello, this is the answering machine of the Schmidt family.
Hi, thanks for calling. I can't pick up the phone right now, but if you leave your number I'll call you back.
I'm on vacation until the fifteenth. Please leave a message or send me an email.
Hey, it's Nina. I never check my voicemail, so please text me.
Hello, you have reached 555 0123. Nobody is available to take your call.
Thank you for calling Bright Dental. All of our lines are busy. Please stay on the line.
For English, press one. For Spanish, press two.
We're sorry, your call cannot be completed as dialed. Please check the number and dial again.
The number you have reached is no longer in service.
The party you are calling is temporarily unavailable.
hi this is ben's phone leave a message and he'll call you back
If you'd like to leave a message, press one now.
You have been forwarded to a voice mail box that has not been set up yet.
I am not able to take your call right now. At the beep leave a detailed message.
Hello, sorry I'm not in at the moment. Leave a message after the tone and I'll ring you back when I'm home.
Yo, it's Leo. You missed me. Leave one at the beep.
This is Grace. Please leave me a message with your name and a number where I can reach you, thanks.
Hi, you've reached Ellen at extension 204. I'm unavailable right now. Please leave your details after the tone.
The person at extension 312 is on the phone. To leave a message, wait for the tone.
Hi, it's me. Well, it's not me, it's my voicemail. You know what to do.
please leave your message for
Greetings. You've come through to the voicemail of Omar Haddad.
I can't come to the phone because I'm probably playing with my kids. Leave your number and I'll call you back soon.
Thank you for calling the Miller residence. We are unable to come to the phone. Your call is important to us.
Hello, no one can take your call at the moment. Please leave your message after the tone, and press hash to finish.
You have reached the mailbox of extension 17.
We're sorry, the user you are trying to reach has a voicemail box that is full.
This number is currently not in service.
The wireless customer you are calling is not available. Please try your call again later.
hi you've reached jen i'm busy right now but leave me a message and i'll get back to you as soon as possible bye
Sorry I missed your call. I'll get back to you shortly if you leave your name and number.
Bonjour, hello, you have reached Claire, please leave a message in French or in English.
We are closed for the holidays. Our normal hours are eight to six. Please call back then.
The clinic is closed now. If you know your party's extension, dial it at any time.
Hello, you've reached the phone of George. He's not available. Please leave a message after the beep.
Hi, this is Lucy's mobile. I can't answer at the moment, please send me a text message.
Please wait for the beep and then leave your message.
hello i'm not here right now please leave a message at the tone thank you
To page this person, press five now. At the tone, please record your message.
You've got Mark. I'm out. Message, please, after the tone.
This is an automated answering service. Please state your name and the reason for your call after the tone.
Hi, this is Rita with Sunny Homes. I'm showing a house or on the other line. Leave a message and I'll return your call.
Hi, if you're hearing this, I can't take your call. Leave a message.
The person you're calling can't take your call right now. At the tone, please record your message.
Your call cannot be connected at this time. Please try again later.
We cannot take your call just now. Please leave your name and telephone number after the long tone.
Hello, you've reached Hannah and Peter. We're out walking the dog. Leave a message.
The caller you are trying to reach has calling restrictions.
Hi, you've reached Tony's Garage. We're closed. Our hours are eight to five. Leave a message and we'll be in touch.
Sorry, we are unable to answer the phone. Please leave your name and your number, and one of us will get back to you.
Good afternoon, you are through to the voicemail of Priya Shah.
hey you've reached me i'll call you back
This mailbox is not accepting messages.
You have reached a non-working number.
Hi, I'm screening my calls. Say who you are after the beep.
Hello. I can't talk now, leave me a voice message.
I'm driving or with a client. Leave a message and I'll call you back at my earliest convenience.
Hello, thanks for your call. I'm sorry that I'm not able to answer the phone. Leave a message and I will call back.
This call is being forwarded. Please hold the line. Your call will be answered by voicemail.
The Vodafone customer you've called is unable to take your call. Please leave a message after the tone.
Sorry, but the person you called has a voice mailbox that has not been set up yet. Goodbye.
Hi, Chris here. I can't pick up. Try me later or leave a message.
If you record your name and reason for calling, I'll see if this person is available.
Hi this is Dana, sorry I can't take your call, please leave your name and number.
You have reached Wilson Plumbing. We're on another job. Leave a message and we'll get right back to you.
Aloha, I'm surfing. Leave a message.
The number you are trying to call is not reachable.
Welcome to O2 voicemail. The person you are calling cannot take your call.
You have reached a number that has been disconnected.
Hi, I'm probably asleep. Leave me something after the beep.
Hey! It's Zoe! I'm not here! Bye!
Hello. You've reached the Garcia household. Nobody's home. Please leave a message.
Hi, you have reached Kevin, I'm away from the phone, please leave a message.
We are sorry, the mailbox you have reached is full.
If you want to send a fax, press start now.
Hi it's Beth, please text instead of leaving a voicemail as I don't check it.
Please state your name after the tone and Google Voice will try to connect you.
the person you are calling has not set up their voicemail
I'm sorry but the person you called has a voicemail that's not been initialized
Your call is important to us. Please hold for the next available representative.
Hey you missed me. Try again later.
Thank you for calling. Nobody is in the office. Please call again during business hours.
This is Frank. Beep.
"""
OPENINGS = """
Hello?
Hello
Yes?
Yes.
Hi
Hi, this is Ada.
Ada Lovelace speaking.
Ada Lovelace.
Yes, speaking.
Yes, this is she.
This is Tom, hello?
Hello, who is this?
Who's calling, please?
Yeah?
Yeah, what's up?
Good morning.
Good morning, Lovelace.
Hello, hello, can you hear me?
Sorry, I can't hear you.
Hello, I can't hear you very well, who is this?
Yes, that's me.
No, this is her husband.
No, she's not here at the moment.
She's not here right now, can I take a message?
She's not available right now. May I ask who's calling?
He's at work, he'll be back at six.
She can't come to the phone right now, can I take a message?
Hold on, I'll get her.
One moment, please.
Just a second, I'm driving.
Hi, I'm in a meeting, can you call me back later?
I can't talk right now, please call me tomorrow.
I'm busy, call me back in an hour.
I'm sorry, you have the wrong number.
There's nobody here by that name.
Wrong number.
You have reached the wrong number, I think.
Blue Flower Shop, how can I help you?
Thank you for calling Blue Flower Shop, this is Nina, how can I help you?
Good afternoon, you've reached Dr. Brown's office, how may I help you?
You've reached the Lovelace residence, who's calling?
Reception, Maria speaking.
Miller and Sons, good morning, Peter speaking, what can I do for you?
Front desk, this is Kim.
Hello, the Smiths.
Speaking. What is this about?
Who is this? How did you get my number?
Is this a robot?
Are you a real person?
Not interested, thanks.
I don't want anything, goodbye.
Please don't call me again.
Stop calling this number.
Take me off your list.
Yes, hello, I've been waiting for your call.
Oh hi, I just missed a call from you.
Hi, sorry, I just missed your call, were you trying to reach me?
Hello? Hello? Is anybody there?
Hello, are you there?
What?
Sorry?
Pardon?
Yes, go ahead.
Yes, I'm listening.
Yes, I'll be there.
Yes, I have an appointment on Tuesday, is that what it's about?
Oh, is that about my appointment?
Hi, yes, this is Tom, I'm glad you called because I need to move my appointment.
yes this is ada i wanted to call you about my appointment i am not sure i can make it because my son is ill
Oh good that you call, I have been trying to reach you all morning but nobody picked up the phone.
Hello, I tried to call you yesterday but I only got your voicemail, is that still about the appointment?
Did you leave me a message yesterday?
I got your message, thanks.
I was just listening to your message.
Could you call back in ten minutes?
Can you call my mobile instead?
Please call my wife, it's her appointment.
Mom, there's someone on the phone for you.
Hello, grandma?
Is that you, Peter?
Hey, honey.
Hi mom, I'm about to board, can I call you back?
Speak up, please.
The line is bad, say that again?
Yes, who am I speaking to?
What do you want?
What company is this?
Hello, yes, um, hold on a second please, let me turn the radio down.
Sorry, I was just in the garden, who is it?
Yes, this is Mrs. Green, but my husband makes the appointments.
No, Tom moved out last year.
She passed away in spring.
Is this the clinic?
Bueno?
Allo?
Ja, hallo?
Hm?
Uh huh.
Okay.
Lovelace here.
Yep, you got him.
The very same.
At your service.
Yes, this is Ada, I'm at work so please make it quick.
Hello, Susan here.
Hi who's that?
Hey, can I call you right back?
Yeah hold on let me get a pen.
This is the Garcia residence.
Nobody's home but me.
My mom is not home. Can I tell her you called?
He's not available, try his cell phone.
I'm not available on Thursday, if that's what you want to know.
I can't hear a thing, the reception is awful.
Can you please take me off the list?
I already told you people to leave me alone.
Oh, I thought you were my daughter.
Who? No, I think you dialed the wrong number.
The number you called is my work phone.
I can't come to the appointment, I'm sick.
I cannot take this call now, I'm at the doctor.
We're closed. Call tomorrow please.
Sorry, we are closed today, can I help you with something?
Hi, I'm Ada's assistant, she's on another call, may I help?
Please hold, I'll put you through.
I'll get back to you later, I'm driving.
Not now.
Hello, this is Ada. Is it about the reschedule? I'll be there.
You have reached the right person.
"""
LISTED = {name: text.strip().splitlines() for name, text in (("machine", GREETINGS), ("person", OPENINGS))}


def as_speech(text: str) -> str:
    """The text as speech recognition may return it."""
    return " ".join("".join(sign for sign in text.lower() if sign.isalnum() or sign in " '").split())


def confusion(texts: dict[str, list[str]]) -> dict[tuple[str, str], int]:
    """How many texts of who says them were taken for whose."""
    counts = {(said, taken): 0 for said in texts for taken in texts}
    for said, those in texts.items():
        for text in those:
            counts[said, "machine" if voicemail.is_greeting(text) else "person"] += 1
    return counts


def test_at_least_a_hundred_of_each_are_listed_once() -> None:
    assert all(len({*texts}) == len(texts) >= 100 for texts in LISTED.values())


@pytest.mark.parametrize("heard", [str, as_speech])
def test_nobody_is_hung_up_on_and_nearly_all_machines_are_recognized(heard: Callable[[str], str]) -> None:
    assert confusion({name: [heard(text) for text in texts] for name, texts in LISTED.items()}) == {
        ("machine", "machine"): 119,
        # Hey! It's Zoe! I'm not here! Bye! -- Hey you missed me. Try again later. -- This is Frank. Beep.
        ("machine", "person"): 3,
        # We're closed. Call tomorrow please.
        ("person", "machine"): 1,
        ("person", "person"): 128,
    }
