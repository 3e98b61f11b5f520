"""Messages that opt out: a wish not to be called or written to again (promises 11). Outside the model, as `assent` is.

A message opts out if one of its sentences is such a wish from the first word to the last, or if the whole message is
"stop", "unsubscribe" or the like. A sentence with a time, a condition, a quotation or a question is no such wish. What
only may be a wish is asked about once: a false positive costs a question, and never a silent opt-out.
"""

from __future__ import annotations

import re
import unicodedata

from shared.agent import Reply, assent
from shared.agent.actions import HandoffReason, handoff
from shared.agent.turn import AppointmentProposal, OptOutQuestion, TurnInput, TurnResult

LONGEST = 500
"""Characters of the longest message that can be an explicit wish."""
QUESTION = "Would you like us not to call or write to you again? Please answer yes or no."
OPTED_OUT_REPLY = "All right, we will not call or write to you again."
NOBODY = "I do not know which phone number is yours. I have asked someone from our team to take care of it."

_CALL = (
    r"(?:(?:cold[- ])?call|phone|ring|contact|text|message|write(?: to)?|e-?mail|reach out to|bother|disturb|harass"
    r"|pester|spam)"
)
_CONTACT = r"(?:contact|reach out to|bother|disturb|harass|pester|spam)"
_CALLING = (
    r"(?:calling|phoning|ringing|contacting|texting|messaging|writing(?: to)?|e-?mailing|reaching out to|bothering"
    r"|disturbing|harassing|pestering|spamming)"
)
_CALLED = r"(?:called|contacted|phoned|rung|texted|messaged|e-?mailed|written to|bothered|disturbed)"
_CALLS = r"(?:(?:phone )?calls?|texts?|(?:text )?messages?|e-?mails?|reminders?|contact)"
_ME = r"(?:me|us|my (?:phone|number)|this (?:phone )?number|here)"
_YOU = r"(?:from (?:you|your (?:clinic|company|business|office|salon|practice|team|side)|you (?:people|guys)))"
_EVER = r"(?:again|any ?more|ever(?: again)?|at all|any longer|in (?:the )?future|from now on)"
_NOT = r"(?:do not|don'?t|never|(?:do not|don'?t) (?:you )?(?:ever|dare)(?: to)?)"
_NO_WISH = r"(?:i|we) (?:(?:really )?(?:do not|don'?t) (?:ever )?|no longer |never )(?:want|wish|like|care)"
_LIST = (
    r"(?:(?:your|the (?:call(?:ing|er)?|contact|phone|mailing|marketing)|your (?:call(?:ing|er)?|contact|phone|mailing"
    r"|marketing)) (?:lists?|systems?|databases?|records|files?|contacts))"
)
_WISHES = (
    # "Don't call me" can mean this once.
    rf"{_NOT} {_CALL}(?: or {_CALL})?(?: {_ME})?(?: {_EVER}){{1,2}}|{_NOT} {_CONTACT} {_ME}",
    rf"(?:stop|quit|cease|no more) {_CALLING}(?: (?:or|and) {_CALLING})?(?: {_ME})?(?: (?:now|{_EVER})){{0,2}}",
    rf"stop (?:these|the|your|all(?: (?:these|the|your))?|sending(?: me)?) {_CALLS}",
    rf"{_NO_WISH} to be {_CALLED}(?: or {_CALLED})?(?: by (?:you|anyone))?(?: {_EVER})?",
    rf"{_NO_WISH} to (?:hear|(?:get|receive) (?:any )?(?:more )?{_CALLS}) {_YOU}(?: {_EVER})?",
    rf"{_NO_WISH} (?:to (?:get|receive) )?(?:any(?: more| further)?|more|further|your|these) {_CALLS}"
    rf"(?: {_YOU})?(?: {_EVER})?",
    rf"{_NO_WISH} (?:you|anyone|you people|you guys) to {_CALL} {_ME}(?: {_EVER})?",
    rf"{_NO_WISH} (?:you|you people|you guys) {_CALLING} {_ME}(?: {_EVER})?",
    rf"(?:i|we) (?:want|would like|need) you to stop {_CALLING}(?: {_ME})?(?: {_EVER})?",
    rf"(?:(?:i|we)(?: would|'d) (?:like|prefer)|(?:i|we) want) to be (?:taken off|removed from|deleted from) {_LIST}",
    rf"(?:i|we)(?: would|'d) (?:like|prefer|rather) (?:not to be|not be) {_CALLED}(?: {_EVER})?",
    rf"(?:i|we)(?: would|'d) (?:like|prefer|rather) you (?:not|did not|didn'?t) {_CALL} {_ME}(?: {_EVER})?",
    rf"(?:remove|delete|erase|strike) (?:me|us|my (?:phone )?number|this number)(?: (?:from|off|out of) {_LIST})?",
    rf"take (?:me|us|my (?:phone )?number|this number) off(?: {_LIST})?",
    r"lose (?:my|this) (?:phone )?number|opt (?:me|us) out|unsubscribe (?:me|us)|block my number",
    r"(?:put|add) (?:me|us|my number) (?:on|to) (?:your|the) (?:do[- ]not[- ]call|no[- ]call) list",
    r"(?:i|we)(?: (?:want|would like|wish) to|'d like to| hereby)? (?:opt out|unsubscribe)",
    rf"no more {_CALLS}(?: (?:and|or) {_CALLS})?(?: {_YOU})?",
    r"leave (?:me|us) alone(?: (?:for good|for ever|forever))?",
    rf"never {_CALL} (?:me|us) again|never again {_CALL} (?:me|us)",
    rf"(?:i|we)(?:'ve| have)? (?:already |repeatedly )?(?:told|asked) you (?:to stop {_CALLING}|not to {_CALL})"
    rf"(?: {_ME})?(?: {_EVER})?",
    rf"(?:can|could|would|will) you (?:please )?(?:stop {_CALLING}(?: {_ME})?|not {_CALL} {_ME} {_EVER})",
    rf"you (?:may|must|should) not {_CALL} {_ME}(?: {_EVER})?",
)
_WHOLE = r"stop(?: it| all| this)?|stopall|unsubscribe|end all|quit|opt[- ]?out|remove me|take me off|no more"
_DECISIVE, _DECISIVE_ALONE = re.compile("|".join(_WISHES)), re.compile(_WHOLE)
_BESIDE = re.compile(
    r"please|pls|just|hi|hello|hey|no|ok|okay|and|so|thanks|thank you|kindly|really|simply|i said|sorry|listen|look"
)
_LONGEST_PHRASE = 16
# Such words in the other sentences can make the wish someone else's, or take it back.
_DOUBT = re.compile(
    r"[\"“”«»]|\b(?:if|unless|until|except|otherwise|said|says|saying|told|tells|wrote|meant|kidding|joking|instead"
    r"|rather|only|but)\b"
)
# Who wants to be reached in another way may not wish to be left alone: "Stop calling this number, call my mobile".
_ANOTHER_WAY = re.compile(
    r"(?:(?:please|just|and|or|then|you (?:can|may)) )*(?:call|ring|phone|text|message|write|e-?mail|contact|use|try)\b"
)
_MAY_BE = re.compile(
    rf"\b(?:{_NOT} {_CALL} {_ME}|(?:stop|quit) {_CALLING}|(?:stop|fed up with|tired of|sick of|(?:had )?enough of)"
    rf" (?:all )?(?:these|the|your|of) (?:\w+ )?{_CALLS}|unsubscribe|opt(?:ing)? out|(?:remove|delete|erase|forget) my"
    rf" (?:(?:phone )?number|data)|(?:off|from) (?:{_LIST}|(?:this|that) list)|leave (?:me|us) alone"
    rf"|not to (?:be {_CALLED}|{_CALL} {_ME})|do[- ]not[- ]call list|wants? no (?:more )?{_CALLS}"
    r"|(?:cancel|enough(?: with| of)) (?:all )?(?:(?:the|these|your|future) )+(?:calls|texts|messages|reminders)"
    r"|(?:revoke|withdraw) (?:my )?consent|(?:do not|don'?t|no longer) consent)\b"
)
# A wish about a time, a way or a reason of calls is not about calls as such.
_LIMITED = re.compile(
    r"\b(?:before|after|until|till|between|during|while|when|today|tonight|tomorrow|now|right now"
    r"|this (?:morning|afternoon|evening|week|month)|so (?:early|late|often)|at (?:work|home|night|noon|\d|lunch"
    r"|this (?:time|hour))|on (?:(?:my|the|a) )?(?:\w+day|weekends?|landline|mobile|work)"
    r"|in the (?:morning|afternoon|evening)|about|because|back|instead|if|unless)\b"
)
_SENTENCE = re.compile(r"[.!?;,:\n]+|\s[-\u2013\u2014]\s")


def opts_out(text: str) -> bool:
    """Whether the message is, or contains, an explicit wish not to be called or written to again."""
    plain = _plain(text)
    if len(text) > LONGEST:
        return False
    if _consists_of(plain, _DECISIVE_ALONE):
        return True
    sentences = [sentence.strip() for sentence in _SENTENCE.split(plain)]
    others = [sentence for sentence in sentences if sentence and not _consists_of(sentence, _DECISIVE)]
    is_wish = any(_consists_of(sentence, _DECISIVE) for sentence in sentences)
    is_doubtful = any(_DOUBT.search(sentence) or _ANOTHER_WAY.match(sentence) for sentence in others)
    # Only a question that is the wish is one: "Can you please stop calling me?".
    return is_wish and not is_doubtful and not ("?" in plain and others)


def may_opt_out(text: str) -> bool:
    """Whether the message may be such a wish, without being an explicit one."""
    plain = _plain(text)
    return bool(_MAY_BE.search(plain)) and not _LIMITED.search(plain) and not opts_out(text)


def reply(turn_input: TurnInput) -> Reply | None:
    """The reply to a message that opts out, or may do so; None for every other message."""
    is_answer = isinstance(turn_input.proposal, OptOutQuestion)
    is_explicit = opts_out(turn_input.message)
    # "Stop" can refuse what the agent proposed.
    refuses = isinstance(turn_input.proposal, AppointmentProposal) and assent.refuses(turn_input.message)
    if (is_explicit and not refuses) or (is_answer and assent.agrees(turn_input.message, "opt_out")):
        if turn_input.customer_id is None:
            return Reply(NOBODY, TurnResult([handoff(HandoffReason.CANNOT_HELP)]))
        result = TurnResult([{"type": "customer_opted_out", "customer_id": turn_input.customer_id}])
        return Reply(f"{OPTED_OUT_REPLY} Goodbye!" if turn_input.call else OPTED_OUT_REPLY, result)
    if is_answer or not (is_explicit or may_opt_out(turn_input.message)):
        return None
    return Reply(QUESTION, TurnResult(proposed=OptOutQuestion()))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\u2019", "'").lower()


def _consists_of(sentence: str, decisive: re.Pattern[str]) -> bool:
    return assent.consists_of(re.sub(r"[,.!;?:]", " ", sentence).split(), decisive, _BESIDE, _LONGEST_PHRASE)
