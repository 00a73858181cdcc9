"""How values are shown: times, spans, states and numbers, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

# The word for each state, and the colour that it has everywhere.
STATES: dict[str, tuple[str, str]] = {
    "pending": ("pending", "wait"),
    "in_flight": ("in flight", "move"),
    "waiting": ("waiting for children", "wait"),
    "delivered": ("delivered", "good"),
    "suppressed": ("suppressed", "off"),
    "failed": ("failed", "bad"),
    "dismissed": ("dismissed", "off"),
}
ATTEMPTS = {
    "done": ("accepted", "good"),
    "running": ("running", "move"),
    "scheduled": ("scheduled", "wait"),
    "suppressed": ("suppressed", "off"),
}
BECAUSE = {
    "rejected": "refused permanently",
    "exhausted": "all attempts failed",
    "uncertain": "may have arrived",
    "expired": "expired",
    "poison": "crashes its worker",
}
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)Z")
_CODE = re.compile(r"`([^`]{1,80})`")


def utc(at_ms: int) -> str:
    """To the second; a time that no calendar has stays a number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def _iso(at_ms: int) -> str:
    return utc(at_ms).replace(" UTC", "Z").replace(" ", "T")


def when(at_ms: int | None) -> Markup:
    """The exact time; a script shows it in the reader's zone, with UTC on hover."""
    if at_ms is None:
        return Markup("")
    stamp = Markup('<time datetime="{}" title="{}">{}</time>')
    return stamp.format(_iso(at_ms), utc(at_ms), utc(at_ms))


@pass_context
def ago(context: Context, at_ms: int | None) -> Markup:
    """How long ago, or until then; the exact time on hover."""
    if at_ms is None:
        return Markup("")
    text = distance((at_ms - context["now_ms"]) / 1000)
    stamp = Markup('<time class="rel" datetime="{}" title="{}">{}</time>')
    return stamp.format(_iso(at_ms), utc(at_ms), text)


def distance(ahead_s: float) -> str:
    """`in 4 min`, `3 h ago`, `now`."""
    if abs(ahead_s) < 1:
        return "now"
    return f"in {span(ahead_s)}" if ahead_s > 0 else f"{span(-ahead_s)} ago"


def span(time_s: float) -> str:
    """The largest unit that fits, one figure: enough to judge by."""
    for unit, size_s in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if time_s >= size_s:
            return f"{int(time_s // size_s)} {unit}"
    return f"{round(time_s * 1000)} ms"


def took(start_ms: int | None, end_ms: int | None) -> str:
    if start_ms is None or end_ms is None:
        return ""
    passed_s = max(end_ms - start_ms, 0) / 1000
    return f"{passed_s:.1f} s" if 1 <= passed_s < 60 else span(passed_s)


def state(word: str, kind: str) -> Markup:
    """A word with the colour of its state."""
    return Markup('<span class="state {}">{}</span>').format(kind, word)


def color(name: str) -> str:
    return STATES[name][1] if name in STATES else "wait"


def state_word(name: str) -> str:
    return STATES[name][0] if name in STATES else name


def attempt(status: str) -> Markup:
    word, kind = ATTEMPTS.get(status, (status.replace("_", " "), "bad"))
    return state(word, kind)


def because(reason: str) -> str:
    return BECAUSE.get(reason, reason)


def number(value: int) -> str:
    """1234567 as 1,234,567."""
    return f"{value:,}"


def size(count: int) -> str:
    for unit, limit in (("MB", 1_000_000), ("KB", 1000)):
        if count >= limit:
            return f"{count / limit:.1f} {unit}"
    return f"{count} B"


def plural(count: int, word: str, more: str | None = None) -> str:
    return f"{count:,} {word if count == 1 else more or word + 's'}"


def upper_first(text: str) -> str:
    """As a sentence begins; the rest may hold names."""
    return text[:1].upper() + text[1:]


def error(error_class: str) -> str:
    """`recipient_refused` as a title."""
    return upper_first(error_class.replace("_", " "))


def sentence(text: str) -> Markup:
    """A sentence of `why`: its times become local ones, its `words` are set apart."""
    safe = str(escape(text))
    safe = _MOMENT.sub(r'<time datetime="\1T\2Z" title="\1 \2 UTC">\1 \2 UTC</time>', safe)
    return Markup(_CODE.sub(r"<code>\1</code>", safe))  # noqa: S704 - escaped two lines above


def code(text: str) -> Markup:
    """Plain words in which `these` are set apart."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


FILTERS: Mapping[str, Callable[..., Any]] = {
    "ago": ago,
    "attempt": attempt,
    "because": because,
    "code": code,
    "color": color,
    "error": error,
    "number": number,
    "sentence": sentence,
    "size": size,
    "span": span,
    "state_word": state_word,
    "upper_first": upper_first,
    "utc": utc,
    "when": when,
}
GLOBALS: Mapping[str, Any] = {"plural": plural, "state": state, "took": took}
