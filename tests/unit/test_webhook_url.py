# ruff: noqa: RUF001 (look-alike characters are what is tested)

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.webhooks.urls import MAX_URL_LENGTH, UrlRefused, read_url, refuse_address, refuse_url

PUBLIC = """
    https://example.com
    https://example.com/
    https://example.com/hook
    https://example.com/hook?token=a%2Fb+c&x=[1]
    https://example.com?only=query
    https://EXAMPLE.com/Path
    HTTPS://example.com/
    https://example.com:443/
    https://example.com:8443/hook
    https://example.com:/
    https://example.com:1/
    https://example.com:65535/
    https://example.com./hook
    https://hooks.sub-domain.example.co.uk/a/b/c
    https://under_score.example.com/
    https://1password.com/
    https://123.example.com/
    https://0x7f.example.com/
    https://localhost.example.com/
    https://local.example.com/
    https://internal.example.com/
    https://bücher.example/
    https://xn--bcher-kva.example/
    https://例え.jp/受信
    https://example.com/päth?q=ü
    https://example.com/a|b{c}
    https://example.com/a@b
    https://example.com/a:b//c
    https://8.8.8.8/
    https://8.8.8.8:8443/
    https://1.1.1.1./
    https://172.15.255.255/
    https://172.32.0.1/
    https://100.63.255.255/
    https://100.128.0.1/
    https://192.0.1.1/
    https://198.17.255.255/
    https://223.255.255.255/
    https://[2606:4700:4700::1111]/
    https://[2606:4700:4700::1111]:8443/hook
    https://[2001:4860:4860::8888]/
    https://[64:ff9b::8.8.8.8]/
"""

REFUSED = """
    example.com
    //example.com/
    /hook
    https:/example.com/
    https:example.com
    https://
    https:///hook
    https://?x
    https://:443/
    http://example.com/
    http://8.8.8.8/
    ftp://example.com/
    ws://example.com/
    wss://example.com/
    file:///etc/passwd
    javascript:alert(1)
    data:text/plain,x
    https+unix://example.com/
    https://user@example.com/
    https://user:password@example.com/
    https://:@example.com/
    https://@example.com/
    https://example.com@127.0.0.1/
    https://127.0.0.1@example.com/
    https://example.com%40127.0.0.1/
    https://example.com\\@127.0.0.1/
    https:\\\\example.com/
    https://example.com/a\\b
    https://example.com/#
    https://example.com/#fragment
    https://example.com#fragment
    https://example.com:0/
    https://example.com:65536/
    https://example.com:99999999999999999999/
    https://example.com:-1/
    https://example.com:+1/
    https://example.com:8_0/
    https://example.com:８０/
    https://example.com:abc/
    https://example.com:80:80/
    https://.example.com/
    https://example..com/
    https://example.com../
    https://./
    https://-example.com/
    https://example-.com/
    https://exa$mple.com/
    https://exa%6Dple.com/
    https://%31%32%37.0.0.1/
    https://*.example.com/
    https://example.com;a/
    https://a,b.com/
    https://xn--a.❤..com/
    https://localhost/
    https://LOCALHOST/
    https://localhost./
    https://localhost:443/
    https://app.localhost/
    https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/
    https://ｌｏｃａｌｈｏｓｔ/
    https://printer.local/
    https://metadata.google.internal/
    https://ip-10-0-0-1.ec2.internal/
    https://ip-10-0-0-1.ec2.internal./
    https://db.INTERNAL/
    https://nothing.invalid/
    https://abcdefghijklmnop.onion/
    https://router.home.arpa/
    https://intranet/
    https://com/
    https://instance-data/
    https://0/
    https://0.0.0.0/
    https://0.1.2.3/
    https://127.0.0.1/
    https://127.0.0.1./
    https://127.0.0.1:8443/
    https://127.255.255.254/
    https://127.1/
    https://127.0.1/
    https://2130706433/
    https://0x7f000001/
    https://0x7F.1/
    https://0x7f.0.0.1/
    https://0x/
    https://1.0x/
    https://0177.0.0.1/
    https://017700000001/
    https://127.0.0.01/
    https://127.0.0.1.1/
    https://256.1.1.1/
    https://4294967296/
    https://134744072/
    https://8.8.2056/
    https://１２７.０.０.１/
    https://127。0。0。1/
    https://①②⑦.⓪.⓪.①/
    https://foo.123/
    https://10.0.0.1/
    https://10.255.255.255/
    https://100.64.0.1/
    https://100.127.255.255/
    https://169.254.169.254/latest/meta-data/
    https://172.16.0.1/
    https://172.31.255.255/
    https://192.0.0.1/
    https://192.0.2.1/
    https://192.88.99.1/
    https://192.168.1.1/
    https://198.18.0.1/
    https://198.19.255.255/
    https://198.51.100.1/
    https://203.0.113.1/
    https://224.0.0.1/
    https://239.255.255.255/
    https://240.0.0.1/
    https://255.255.255.255/
    https://[::]/
    https://[::1]/
    https://[::1]:8443/
    https://[0:0:0:0:0:0:0:1]/
    https://[0000:0000:0000:0000:0000:0000:0000:0001]/
    https://[::127.0.0.1]/
    https://[::8.8.8.8]/
    https://[::ffff:127.0.0.1]/
    https://[::ffff:7f00:1]/
    https://[::ffff:169.254.169.254]/
    https://[::ffff:8.8.8.8]/
    https://[::ffff:0:8.8.8.8]/
    https://[64:ff9b::127.0.0.1]/
    https://[64:ff9b::10.0.0.1]/
    https://[64:ff9b::a9fe:a9fe]/
    https://[64:ff9b:1::1]/
    https://[100::1]/
    https://[2001::1]/
    https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/
    https://[2001:2::1]/
    https://[2001:10::1]/
    https://[2001:20::1]/
    https://[2001:db8::1]/
    https://[2002:7f00:1::]/
    https://[2002:808:808::1]/
    https://[3fff::1]/
    https://[5f00::1]/
    https://[4000::1]/
    https://[fc00::1]/
    https://[fd00:ec2::254]/
    https://[fe80::1]/
    https://[fe80::1%25eth0]/
    https://[fe80::1%eth0]/
    https://[2606:4700:4700::1111%25eth0]/
    https://[::1%25lo]/
    https://[fec0::1]/
    https://[ff02::1]/
    https://[]/
    https://[::1/
    https://::1]/
    https://::1/
    https://[::1]8443/
    https://[::1].example.com/
    https://x[::1]/
    https://[[::1]]/
    https://[127.0.0.1]/
    https://[example.com]/
    https://[v1.fe80::1]/
    https://[::g]/
    https://[1:2:3:4:5:6:7:8:9]/
"""

LOOPBACK = """
    http://localhost/
    http://localhost:3000/hook
    http://LocalHost:3000/hook
    http://localhost.:3000/hook
    http://app.localhost:3000/hook
    http://127.0.0.1:3000/hook
    http://127.8.9.10/
    http://[::1]:3000/hook
    https://localhost:3000/hook
    https://127.0.0.1/
    https://[::1]/
"""

# Also where loopback is allowed.
NEVER = """
    http://example.com/
    http://8.8.8.8/
    http://localhost.example.com/
    http://0.0.0.0:3000/
    http://[::]:3000/
    http://0/
    http://10.0.0.1/
    https://10.0.0.1/
    https://192.168.0.1/
    https://169.254.169.254/
    https://[fd00::1]/
    https://[fe80::1]/
    http://[::ffff:127.0.0.1]/
    https://[::ffff:127.0.0.1]/
    https://[::127.0.0.1]/
    https://[64:ff9b::127.0.0.1]/
    https://[2002:7f00:1::]/
    http://[::1%25lo]/
    http://127.1/
    http://2130706433/
    http://0x7f.1/
    https://printer.local/
    https://intranet/
    ftp://localhost/
    http://user@localhost/
    http://localhost/#fragment
"""


def lines(table: str) -> list[str]:
    return table.split()


@pytest.mark.parametrize("url", lines(PUBLIC))
def test_a_public_https_url_is_taken(url: str) -> None:
    assert refuse_url(url, allow_loopback=False) is None
    assert refuse_url(url, allow_loopback=True) is None


@pytest.mark.parametrize("url", lines(REFUSED))
def test_what_cannot_be_public_is_refused_with_a_sentence(url: str) -> None:
    reason = refuse_url(url, allow_loopback=False)

    assert reason is not None
    assert reason.endswith(".")


@pytest.mark.parametrize("url", lines(LOOPBACK))
def test_loopback_is_taken_only_where_it_is_allowed(url: str) -> None:
    assert refuse_url(url, allow_loopback=True) is None
    assert refuse_url(url, allow_loopback=False) is not None


@pytest.mark.parametrize("url", lines(NEVER))
def test_allowing_loopback_allows_nothing_else(url: str) -> None:
    assert refuse_url(url, allow_loopback=True) is not None


@pytest.mark.parametrize(
    "stray",
    [
        " ",
        "\t",
        "\n",
        "\r",
        "\0",
        "\x0b",
        "\x1f",
        "\x7f",
        "\x85",
        "\u00a0",
        "\u00ad",
        "\u200b",
        "\u2028",
        "\u202e",
        "\u3000",
        "\ufeff",
        "\ud800",
    ],
)
@pytest.mark.parametrize(
    "url",
    [
        "{}https://example.com/",
        "https://exam{}ple.com/",
        "https://example.com/a{}b",
        "https://example.com/{}",
    ],
)
def test_whitespace_and_control_characters_are_refused_wherever_they_stand(url: str, stray: str) -> None:
    assert refuse_url(url.format(stray), allow_loopback=False) is not None


def test_the_length_is_limited_in_characters() -> None:
    start = "https://example.com/"

    assert refuse_url(start + "ä" * (MAX_URL_LENGTH - len(start)), allow_loopback=False) is None
    assert refuse_url(start + "ä" * (MAX_URL_LENGTH - len(start) + 1), allow_loopback=False) is not None


def test_labels_and_names_have_the_lengths_that_dns_takes() -> None:
    assert refuse_url(f"https://{'a' * 63}.com/", allow_loopback=False) is None
    assert refuse_url(f"https://{'a' * 64}.com/", allow_loopback=False) is not None
    assert refuse_url(f"https://{'a.' * 125}com/", allow_loopback=False) is None
    assert refuse_url(f"https://{'a.' * 126}com/", allow_loopback=False) is not None


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com./A/../b", "https://example.com/A/../b"),
        ("https://example.com?a=1", "https://example.com/?a=1"),
        ("https://example.com:8443/x", "https://example.com:8443/x"),
        ("https://example.com/%2e%2F%41?t=a%2Bb+c%20", "https://example.com/%2e%2F%41?t=a%2Bb+c%20"),
        ("https://bücher.example/pä|th?q=ü", "https://xn--bcher-kva.example/p%C3%A4%7Cth?q=%C3%BC"),
        ("https://[2606:4700:4700:0:0:0:0:1111]:8443/", "https://[2606:4700:4700::1111]:8443/"),
    ],
)
def test_a_url_is_sent_as_written_in_ascii(written: str, sent: str) -> None:
    assert str(read_url(written, allow_loopback=False)) == sent


@given(st.text(max_size=60))
def test_no_text_makes_the_judge_stumble(text: str) -> None:
    for url in (
        text,
        f"https://{text}",
        f"https://{text}.com/",
        f"https://[{text}]/",
        f"https://example.com:{text}",
    ):
        refuse_url(url, allow_loopback=True)


@given(st.ip_addresses())
def test_a_literal_in_a_url_is_judged_as_the_same_address_dialled(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    host = f"[{ip}]" if ip.version == 6 else str(ip)

    refused = refuse_url(f"https://{host}/", allow_loopback=False) is not None

    assert refused == (refuse_address(str(ip), allow_loopback=False) is not None)


@given(st.ip_addresses())
def test_no_address_passes_that_python_itself_calls_private_or_reserved(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if refuse_address(str(ip), allow_loopback=False) is None and ip not in ipaddress.IPv6Network("64:ff9b::/96"):
        assert not (ip.is_private)
        assert not (ip.is_loopback)
        assert not (ip.is_link_local)
        assert not (ip.is_multicast)
        assert not (ip.is_unspecified)
        assert not ip.is_reserved


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
def test_an_ipv4_address_inside_nat64_is_judged_as_itself(ip: ipaddress.IPv4Address) -> None:
    inside = refuse_address(f"64:ff9b::{ip}", allow_loopback=False)

    assert (inside is None) == (refuse_address(str(ip), allow_loopback=False) is None)


@pytest.mark.parametrize("address", ["", "localhost", "127.1", "1.2.3.4.5", "fe80::1%eth0", "::1%lo", "2606::1%1"])
def test_what_is_no_plain_address_is_never_dialled(address: str) -> None:
    assert refuse_address(address, allow_loopback=True) is not None


def test_reading_a_refused_url_raises_the_reason() -> None:
    with pytest.raises(UrlRefused, match="whitespace"):
        read_url("https://exa mple.com/", allow_loopback=False)
