import html
import re
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.agent.plain_text import plain

TEXT = {
    "a word": ("hello", "hello"),
    "nothing": ("", ""),
    "blank lines only": (" \n\n\t\n", ""),
    "emphasis": ("*a* _b_ **c** __d__ ***e***", "a b c d e"),
    "nested emphasis": ("**bold *and italic* text**", "bold and italic text"),
    "strikethrough": ("~~old~~ new", "old new"),
    "one tilde": ("~5 to ~10", "~5 to ~10"),
    "arithmetic": ("2 * 3 * 4", "2 * 3 * 4"),
    "snake case": ("a snake_case_name", "a snake_case_name"),
    "a heart": ("I <3 you", "I <3 you"),
    "less than": ("a < b and c > d", "a < b and c > d"),
    "less than, close by": ("a<b", "a< b"),
    "an arrow": ("a <- b <= c", "a <- b <= c"),
    "escapes": (r"\*not\* \# \[a\](b)", "*not* # [a](b)"),
    "an escaped number": (r"1\. not a list", "1. not a list"),
    "a hash without space": ("#1 in town", "#1 in town"),
    "a price range": ("$5 - $10 (approx.)", "$5 - $10 (approx.)"),
    "unclosed emphasis": ("**a", "**a"),
    "heading": ("# One\ntext", "One\n\ntext"),
    "heading of level 6, closed": ("###### Six ######", "Six"),
    "underlined heading": ("One\ntwo\n===\ntext", "One two\n\ntext"),
    "heading with a link": ("## See [us](https://a.io)", "See us: https://a.io"),
    "soft break": ("one\ntwo", "one\ntwo"),
    "hard break by spaces": ("one  \ntwo", "one\ntwo"),
    "hard break by backslash": ("one\\\ntwo", "one\ntwo"),
    "carriage returns": ("one\r\ntwo\rthree", "one\ntwo\nthree"),
    "many blank lines": ("a\n\n\n\n\nb", "a\n\nb"),
    "a rule": ("a\n\n---\n\nb\n\n***\n\nc", "a\n\nb\n\nc"),
    "a tab": ("a\tb", "a b"),
    "quote": ("> said\n> so\n\nyes", "  said\n  so\n\nyes"),
    "nested quote": ("> a\n>\n> > b", "  a\n\n    b"),
    "quote with a list": ("> - a\n> - b", "  - a\n  - b"),
    "inline code": ("run `a_b *c*` now", "run a_b *c* now"),
    "backticks in code": ("`` a`b ``", "a`b"),
    "fence": ("```python\nx = 1\n\n\n\tif y_z:  # *no*\n```", "x = 1\n\n\n\tif y_z:  # *no*"),
    "unclosed fence": ("~~~\n**a**", "**a**"),
    "indented code": ("text\n\n    a\n      b", "text\n\na\n  b"),
    "entities": ("&copy; caf&eacute; &#8364; &amp; &hearts;", "© café € & ♥"),
    "unknown entity": ("&nosuch; AT&T", "&nosuch; AT&T"),
    "other scripts": ("**予約**は[こちら](https://a.io)。", "予約はこちら: https://a.io。"),
    "an emoji of several parts": ("👩‍👩‍👧 **ok**", "👩‍👩‍👧 ok"),
}

LISTS = {
    "bullets": ("* a\n* b", "- a\n- b"),
    "after a line": ("Choose:\n- a\n- b", "Choose:\n\n- a\n- b"),
    "numbers": ("1. a\n1. b\n1. c", "1. a\n2. b\n3. c"),
    "a start": ("7. a\n8. b", "7. a\n8. b"),
    "zero": ("0. a\n1. b", "0. a\n1. b"),
    "parentheses": ("3) a\n4) b", "3) a\n4) b"),
    "nested": ("- a\n  - b\n    - c\n- d", "- a\n  - b\n    - c\n- d"),
    "mixed": ("1. a\n   - b\n   - c\n2. d", "1. a\n   - b\n   - c\n2. d"),
    "two-digit numbers": ("10. a\n    - b", "10. a\n    - b"),
    "loose": ("- a\n\n- b", "- a\n\n- b"),
    "two paragraphs": ("- a\n\n  b\n- c", "- a\n\n  b\n\n- c"),
    "lines": ("- a\n  b", "- a\n  b"),
    "code": ("- a\n  ```\n  x\n   y\n  ```", "- a\n  x\n   y"),
    "tasks": ("- [x] done\n- [ ] to do", "- [x] done\n- [ ] to do"),
    "markup": ("- **Mon**: [book](https://a.io/m)", "- Mon: book: https://a.io/m"),
    "empty items": ("-\n-\n- a", "- a"),
    "two lists": ("- a\n\n* b", "- a\n\n- b"),
    "deeper than the parser goes": ("> " * 30 + "deep", "  " * 20 + "> " * 10 + "deep"),
}

LINKS = {
    "inline": ("[Pay](https://a.io/p?x=1&y=2#z)", "Pay: https://a.io/p?x=1&y=2#z"),
    "with a title": ('[Pay](https://a.io "now")', "Pay: https://a.io"),
    "marked up": ("**[Pay *now*](https://a.io)**", "Pay now: https://a.io"),
    "label of code": ("[`x`](https://a.io)", "x: https://a.io"),
    "label is the url": ("[https://a.io/x](https://a.io/x)", "https://a.io/x"),
    "label is the url, which looks like markup": ("[https://a.io/__x__](https://a.io/__x__)", "https://a.io/__x__"),
    "no label": ("see [](https://a.io)", "see https://a.io"),
    "label with a colon": ("[Pay here:](https://a.io)", "Pay here: https://a.io"),
    "label on two lines": ("[Pay\nhere](https://a.io)", "Pay here: https://a.io"),
    "in a sentence": (
        "Go to [us](https://a.io), or [them](https://b.io).",
        "Go to us: https://a.io, or them: https://b.io.",
    ),
    "before a word": ("[a](https://a.io)b", "a: https://a.io b"),
    "before a bold word": ("[a](https://a.io)**b**", "a: https://a.io b"),
    "a space in the url": ("[a](<https://a.io/b c>)", "a: https://a.io/b%20c"),
    "parentheses": ("[a](https://a.io/b_(c))", "a: https://a.io/b_(c)"),
    "an international name": ("[a](https://bücher.de/ä)", "a: https://xn--bcher-kva.de/%C3%A4"),
    "reference": ("[a][r] and [R]\n\n[r]: https://a.io 'T'", "a: https://a.io and R: https://a.io"),
    "collapsed reference": ("[r][]\n\n[r]: <https://a.io>", "r: https://a.io"),
    "unknown reference": ("[a][r] [b]", "[a][r] [b]"),
    "autolink": ("<https://a.io/_x_>", "https://a.io/_x_"),
    "autolinked address": ("<me@a.io>", "me@a.io"),
    "autolinked mailto": ("<mailto:me@a.io>", "me@a.io"),
    "bare url": (
        "see https://a.io/__init__.py or http://b.io/*c*d.",
        "see https://a.io/__init__.py or http://b.io/*c*d.",
    ),
    "bold bare url": ("**https://a.io/x**", "https://a.io/x"),
    "bare url in parentheses": ("*(https://a.io/x)*", "(https://a.io/x)"),
    "bare url, escaped": (r"https://a.io/b\_c?d=1&amp;e=2", "https://a.io/b_c?d=1&e=2"),
    "bare www": ("www.a.io is *ours*", "www.a.io is ours"),
    "mailto": ("[Write](mailto:me@a.io?subject=Hi%20there)", "Write: me@a.io"),
    "mailto, same label": ("[me@a.io](mailto:me@a.io)", "me@a.io"),
    "mailto nobody": ("[Write](mailto:?subject=x)", "Write"),
    "tel": ("[Call us](tel:+15550100)", "Call us: +15550100"),
    "tel, same number": ("[+1 (555) 0100](tel:+15550100)", "+1 (555) 0100"),
    "javascript": ("[a](javascript:alert(1))", "a"),
    "javascript in capitals": ("[a](JaVaScRiPt:alert(1))", "a"),
    "javascript with an entity": ("[a](javascript&colon;alert(1))", "a"),
    "javascript with a control": ("[a](java\x01script:alert(1))", "a"),
    "javascript by reference": ("[a]\n\n[a]: javascript:alert(1)", "a"),
    "data": ("[a](data:text/html;base64,xx)", "a"),
    "vbscript": ("[a](vbscript:x)", "a"),
    "file": ("[a](file:///etc/passwd)", "a"),
    "relative": ("[a](/b) [c](#d) [e](//f.io)", "a c e"),
    "http without a host": ("[a](https:///x) [b](http:x)", "a b"),
    "empty": ("[a]() [b](<>)", "a b"),
    "image": ("![a *cat*](https://a.io/c.png)", "a cat"),
    "image without alt": ("a ![](https://a.io/c.png) b", "a  b"),
    "image in alt": ("![a ![b](c) d](e)", "a b d"),
    "linked image": ("[![Logo](l.png)](https://a.io)", "Logo: https://a.io"),
    "linked image without alt": ("[![](l.png)](https://a.io)", "https://a.io"),
    "html": ('<a class="x" href="https://a.io/?b&amp;c">Pay <b>now</b></a>.', "Pay now: https://a.io/?b&c."),
    "html, unquoted and left open": ("<a href=https://a.io>Pay", "Pay: https://a.io"),
    "html, not for readers": ("<a href='javascript:alert(1)'>Pay</a> <a name=x>b</a>", "Pay b"),
    "html image": ('<img src="x" alt="a cat" onerror="alert(1)">', "a cat"),
}

TABLES = {
    "plain": ("| A | B |\n|---|:-:|\n| 1 | 2 |", "A | B\n1 | 2"),
    "without outer pipes": ("A | B\n--|--\n1 | 2", "A | B\n1 | 2"),
    "markup": ("|A|B|\n|-|-|\n|**x**|[l](https://a.io)|", "A | B\nx | l: https://a.io"),
    "escaped pipe": ("|A|B|\n|-|-|\n|`x\\|y`|z|", "A | B\nx|y | z"),
    "empty cells": ("|A|B|\n|-|-|\n||2|\n|||", "A | B\n | 2"),
    "a break in a cell": ("|A|\n|-|\n|x<br>y|", "A\nx y"),
    "between paragraphs": ("a\n\n|A|\n|-|\n|1|\n\nb", "a\n\nA\n1\n\nb"),
    "html": ("<table><tr><th>A</th><th>B</th></tr>\n<tr><td>1</td><td>2</td></tr></table>", "A | B\n1 | 2"),
}

HTML = {
    "inline tags": ("a <b>bold</b> <span style='x'>b</span>", "a bold b"),
    "an unknown tag": ("a <foo-bar baz> b", "a b"),
    "break": ("a<br>b<br/>c<br />\nd", "a\nb\nc\nd"),
    "two breaks": ("a<br><br>b<br><br><br><br>c", "a\n\nb\n\nc"),
    "inline comment": ("a <!-- b --> c", "a c"),
    "comment block": ("a\n\n<!-- b\n\nc -->\n\nd", "a\n\nd"),
    "a comment between lines": ("a\n<!-- b -->\nc", "a\n\nc"),
    "a line of tags": ("a\n<b></b>\nc", "a\nc"),
    "sections": ("<?><![\n\n<td><![x[ y\n\n<p><![if a]>b<![endif]>c\n\n<p><![CDATA[d]]>e", "bc\n\ne"),
    "instruction, declaration, cdata": ("a <?php x ?> <!DOCTYPE html> <![CDATA[x]]> b", "a b"),
    "block": ("<div>\n  <p>Hi <b>you</b></p>\n  <p>there</p>\n</div>", "Hi you\nthere"),
    "Markdown in a block": ("<div>\n\n**a**\n\n</div>", "a"),
    "list": ("<ul><li>a</li><li><p>b</p></li></ul>", "- a\n- b"),
    "entities in a block": ("<p>a &amp; b&nbsp;&euro;</p>", "a & b\u00a0€"),
    "script": ("a\n\n<script>\nif (a < b) {}\n\nx()\n</script>\n\nb", "a\n\nb"),
    "script in a line": ("a <script>alert(1)</script> b", "a b"),
    "script in capitals": ("a <SCRIPT type=x>alert(1)</SCRIPT > b", "a b"),
    "script around paragraphs": ("<div><script>\n\nalert(1)\n\n    code\n\n</script></div>\n\nb", "b"),
    "script with a comment": ("<script><!-- x </script>\n\nb", "b"),
    "unclosed script": ("<script>\nalert(1)\n\nb", ""),
    "script named in a sentence": ("Put it in <script> and go", "Put it in and go"),
    "style": ("<style>p { color: red }</style>\n\na <style>b{}</style> c", "a c"),
    "an attribute with >": ('<img title="a > b" src=x>c', "c"),
    "an attribute left open": ('<div title="a\nb\n\nc', "c"),
    "a block left open": ("<div\nx", ""),
    "coded tag": ("&lt;script&gt;alert(1)&lt;/script&gt;", "< script>alert(1)< /script>"),
    "twice coded tag": ("&amp;lt;b&amp;gt;", "&lt; b&gt;"),
    "numbered tag": ("&#60;b&#x3e; &#x3C;/b>", "< b> < /b>"),
    "escaped tag": ("\\<b> \\<!-- x", "< b> < !-- x"),
    "tag put together by markup": ("<**script**> <![](x)/b>", "< script> < /b>"),
    "tag put together by a tag": ("<scr<b>ipt>", "< script>"),
    "tag put together by controls": ("<\u202escr\x00ipt>x</script>", ""),
    "tag in code": ("`<b>` and\n\n```\n<p>&lt;i>\n```", "< b> and\n\n< p>&lt; i>"),
    "tag in an address": ("[a](mailto:%3Cb%3E@a.io)", "a: < b>@a.io"),
    "tag in alt": ("![&lt;b&gt;](x)", "< b>"),
}

CHARACTERS = {
    "controls": ("a\x00b\x07c\x1b[31md\x7fe\x9bf", "abc[31mdef"),
    "breaks of other kinds": ("a\x0bb\x0cc\x85d\u2028e\u2029f", "a b c d e f"),
    "coded controls": ("<p>a&#8;b&#x202e;c&#13;d</p>", "abcd"),
    "overrides": ("https://a.io/\u202egpj.exe", "https://a.io/gpj.exe"),
    "lone surrogates": ("a\ud800b", "ab"),
    "byte order mark": ("\ufeff# a", "a"),
}

CASES = {
    f"{table}: {name}": case
    for table, cases in (
        ("text", TEXT),
        ("list", LISTS),
        ("link", LINKS),
        ("table", TABLES),
        ("HTML", HTML),
        ("characters", CHARACTERS),
    )
    for name, case in cases.items()
}

N = 8000

HOSTILE = {
    "quotes": ">" * N,
    "lists in lists": "- " * (N // 2) + "x",
    "lists, indented": "".join("  " * depth + "- a\n" for depth in range(88)),
    "items": "- a\n" * (N // 4),
    "empty items": "-\n" * (N // 2),
    "quotes of lists": "> - " * (N // 4) + "a",
    "brackets": "[" * N,
    "closed brackets": "[" * (N // 2) + "a" + "]" * (N // 2),
    "images": "![" * (N // 2),
    "images in images": "![" * 1300 + "a" + "](b)" * 1300,
    "unclosed links": "[a](" * (N // 4),
    "unclosed titles": '[a](b "' * (N // 7),
    "links": "[a](https://b)" * (N // 14),
    "stars": "*" * N,
    "emphasis never closed": "*a **a " * (N // 7),
    "emphasis crossed": "*a_b" * (N // 4),
    "emphasis, multiples of three": "a**b" + "c* " * (N // 3),
    "tildes": "~~a " * (N // 4),
    "backticks": "`" * N,
    "backticks of all lengths": "".join("e" + "`" * length for length in range(125)),
    "less than": "<" * N,
    "tags never closed": "<a " * (N // 3),
    "attributes never closed": "x <a b='" * (N // 8),
    "block attributes never closed": "<div b='\n" * (N // 9),
    "quotes in a block": "<div>" + "<a \"'" * (N // 5),
    "comments": "x <!--" * (N // 6),
    "comments in a block": "<div>" + "<!--" * (N // 4),
    "instructions": "x <?" * (N // 4),
    "cdata": "x <![CDATA[" * (N // 11),
    "blocks": "<div>\n" * (N // 6),
    "scripts": "x <script>" * (N // 10),
    "scripts and ends": "x <script></style>" * (N // 18),
    "anchors": "<a href=https://b>" * (N // 18),
    "definitions": "".join(f"[{number}]: u\n" for number in range(N // 10)),
    "the same definition": "[a]: b\n" * (N // 7),
    "uses of a long definition": "[a]: " + "b" * (N // 2) + "\n\n" + "[a]" * (N // 6),
    "definitions never ended": "[a\n" * (N // 3),
    "a wide table": "|a" * (N // 4) + "\n" + "|-" * (N // 4),
    "a long table": "a|b\n-|-\n" + "x\n" * (N // 2 - 4),
    "entities": "&amp;" * (N // 5),
    "ampersands": "&" * N,
    "a number of zeros": "<p>&#" + "0" * N + "60;b",
    "escapes": "\\" * N,
    "lazy lines": "> a\n" + "a\n" * (N // 2),
    "urls": "https://" * (N // 8),
    "url of parentheses": "https://a" + ")" * N,
    "destination of parentheses": "[a](" + "(" * N,
    "hard breaks": "a  \n" * (N // 4),
    "all of it": "*_`[<!>-1.\n" * (N // 11),
}

TAG = re.compile(r"<[a-z/!?]", re.IGNORECASE)


def has_markup(text: str) -> bool:
    return bool(TAG.search(text) or TAG.search(html.unescape(text)))


def assert_readable(text: str) -> None:
    assert not has_markup(text)
    assert not [character for character in text if unicodedata.category(character) == "Cc" and character not in "\n\t"]
    assert all(line == line.rstrip() for line in text.split("\n"))
    text.encode()


@pytest.mark.parametrize(("markdown", "text"), CASES.values(), ids=CASES)
def test_markdown_becomes(markdown: str, text: str) -> None:
    assert plain(markdown) == text
    assert_readable(text)


def test_a_whole_reply_reads_well() -> None:
    reply = (
        "## Your options\n\nHello **Ana**, I found:\n\n1. *Mon* 10:00 at [Main St](https://maps.io/1)\n"
        "2. Tue 11:30\n   - bring `ID`\n\n> Fees apply.\n\n| Day | Fee |\n|---|---|\n| Mon | $5 |\n\n---\n\n"
        "Reply <b>yes</b> or mail <help@a.io>.\n"
    )
    assert plain(reply) == (
        "Your options\n\nHello Ana, I found:\n\n1. Mon 10:00 at Main St: https://maps.io/1\n"
        "2. Tue 11:30\n   - bring ID\n\n  Fees apply.\n\nDay | Fee\nMon | $5\n\n"
        "Reply yes or mail help@a.io."
    )


def test_hostile_text_takes_no_time() -> None:
    started = time.process_time()
    for markdown in HOSTILE.values():
        assert_readable(plain(markdown))
    # All of it takes two to three seconds of CPU; the bound is for a hang, and wide for slow machines.
    assert time.process_time() - started < 20


def test_text_that_is_nested_too_deep_is_kept() -> None:
    for marker in ("> ", "- ", "1. ", "> - "):
        assert plain(marker * 200 + "deep").endswith("deep")


def test_the_parser_is_imported_at_the_first_use() -> None:
    script = "import sys, shared.agent.plain_text as m; assert 'markdown_it' not in sys.modules; print(m.plain('*a*'))"
    assert subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout == "a\n"


MARKUP = """
    * ** _ ~~ ` ``` ~~~ # > - + 1. [ ] ( ) ![ ]( ][ ]: < > </ <!-- --> <? ?> <?> <! <!X <![ <![x <![CDATA[ ]]> ]>
    <a <b> </b> <br> <p> <li> <td> <div> <script> </script> <style> </style> </a> <img href= ' " \\ & &lt; &gt; &amp;
    &#60; &#x3c; &#115; script b https://a.io javascript: mailto: tel:+1 | |-| --- === a word
"""
SPACE = [" ", "\n", "\n\n", "    ", "\t", "\x00"]
FRAGMENTS = st.sampled_from([*MARKUP.split(), *SPACE, "<a href='https://a.io'>", "<img alt='<b>'>"])
WILD = st.lists(FRAGMENTS, max_size=12) | st.lists(FRAGMENTS | st.characters(), max_size=60)


@settings(max_examples=1_000, deadline=None)
@given(WILD.map("".join))
def test_anything_becomes_text_without_tags(markdown: str) -> None:
    text = plain(markdown)
    assert_readable(text)
    assert text == text.strip("\n")


WORDS = "I you we're naïve, Straße: 漢字 yes! no? (maybe) 10:30 $5 50% a/b snake_case 2+3 AT&T <3"
WORD = st.sampled_from(WORDS.split())
PROSE = st.lists(st.lists(WORD, min_size=1, max_size=9).map(" ".join), min_size=1, max_size=6)


@settings(deadline=None)
@given(PROSE, st.sampled_from(["\n", "\n\n"]))
def test_prose_stays_as_it_is(lines: list[str], between: str) -> None:
    prose = between.join(lines)
    assert plain(prose) == prose
