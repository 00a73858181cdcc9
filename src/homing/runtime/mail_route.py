"""The route for e-mails: checked at intake, rendered and frozen once, sent through a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from homing.domain.delivery import FROZEN_ORIGINAL, Content, Delivery
from homing.domain.errors import InvalidRequest, SettingsError
from homing.domain.failure import Failure
from homing.domain.identity import message_id
from homing.domain.message import Email, decode_message
from homing.domain.policy import Ladder, OnUnknown, Plan, Retry, Stage
from homing.engine.intake.admitted import Admitted
from homing.engine.route import Route
from homing.engine.work.handlers import check_policy
from homing.engine.work.steps import SendStep
from homing.ports import Provider

if TYPE_CHECKING:
    from homing.content.limits import Limits
    from homing.content.templates import Catalog

MAIL_ROUTE = "mail"
SEND = "send"
SEND_RETRY = Retry(Ladder((60.0, 300.0, 1800.0, 7200.0, 21600.0, 43200.0)), max_attempts=7)
# Longer than the SMTP client waits by RFC 5321, 4.5.3.2: 330 s to connect and greet, 300 s for each
# of MAIL, RCPT and DATA, 600 s for the answer to the message. The rest is for a slow upload.
SEND_TIMEOUT_S = 2700.0
# A recipient gets no more copies of a message that a server takes and never answers.
MAX_DOUBTFUL_SENDS = 3
# For providers that send nowhere; a real one needs a real sender.
DEFAULT_SENDER = "homing@stub.test"


def mail_route(  # noqa: PLR0913 - settings of the route, each with a default
    provider: Provider,
    *,
    sender: str | None = None,
    allowed_senders: Sequence[str] = (),
    catalog: Catalog | str | Path | None = None,
    limits: Limits | None = None,
    dkim: Mapping[str, tuple[str, str]] | None = None,
    on_unknown: OnUnknown = "retry",
    retry: Retry | None = None,
    timeout_s: float | None = None,
) -> Route:
    """A route over this provider. The From is `sender`, unless a message names one of
    `allowed_senders`: an address, or `@example.org` for all addresses of a domain. `catalog` has
    the templates, or is their folder. `dkim` has, by domain, the selector and the path of the key
    to sign with. `retry` says when and how often a mail is tried, `timeout_s` how long an attempt
    may take."""
    timeout_s = SEND_TIMEOUT_S if timeout_s is None else timeout_s
    check_policy(retry, timeout_s)
    if on_unknown not in get_args(OnUnknown):
        raise SettingsError("on_unknown", f"must be one of {', '.join(get_args(OnUnknown))}")
    own = sender or getattr(provider, "sender", DEFAULT_SENDER)
    if own is None:
        raise SettingsError("sender", "is required: the address that mail comes from")
    composer = EmailComposer(
        own, catalog=_loaded(catalog), limits=limits, allowed_senders=allowed_senders
    )
    send = Stage(name=SEND, retry=retry or SEND_RETRY, sends=True, timeout_s=timeout_s)
    step = SendStep(
        provider,
        composer.freeze,
        sender=composer.envelope_sender,
        sign=_signer(dkim),
        slow=None if catalog is None else composer.is_rendered,
    )
    return Route(
        name=MAIL_ROUTE,
        plan=Plan(stages=(send,), on_unknown=on_unknown, max_doubtful_sends=MAX_DOUBTFUL_SENDS),
        steps={SEND: step},
        provider=provider,
        admit=composer.admit,
    )


def _loaded(catalog: Catalog | str | Path | None) -> Catalog | None:
    if not isinstance(catalog, str | Path):
        return catalog
    from homing.content.templates import Catalog

    return Catalog.load(catalog)


def _signer(dkim: Mapping[str, tuple[str, str]] | None) -> Callable[[bytes], bytes] | None:
    if not dkim:
        return None
    from homing.content.dkim import signer

    return signer(dkim)


class EmailComposer:
    """How e-mails of one route are checked and made into bytes.

    With `needs_to`, mail that has recipients in Cc or Bcc alone is refused.
    """

    def __init__(
        self,
        sender: str | None,
        *,
        catalog: Catalog | None = None,
        limits: Limits | None = None,
        allowed_senders: Sequence[str] = (),
        needs_to: bool = False,
    ) -> None:
        # Late: what only mail needs is not loaded by `import homing`.
        from homing.content import mime, validation
        from homing.content.limits import DEFAULT
        from homing.content.senders import Senders

        self._validation = validation
        self._build = mime.build
        self._reissue = mime.reissue
        self._limits = limits or DEFAULT
        self._catalog = catalog
        self._needs_to = needs_to
        self._known = frozenset(() if catalog is None else catalog.locales())
        self._senders = Senders(sender or DEFAULT_SENDER, allowed_senders)
        self.envelope_sender = self._senders.envelope_sender

    def admit(self, email: Email) -> Admitted:
        """The e-mail in its normal form; InvalidRequest names the field that is wrong."""
        if not isinstance(email, Email):
            raise InvalidRequest("message", "this route takes e-mails")
        checked = self._senders.checked(self._validation.validate_email(email, self._limits))
        if checked.template_id is not None and checked.template_id not in self._known:
            raise InvalidRequest("template_id", "there is no such template")
        if self._needs_to and not checked.to:
            raise InvalidRequest("to", "is empty: give an address")
        return Admitted(
            message=checked,
            recipients=self._validation.envelope_of(checked),
            topic=checked.template_id,
            metadata=checked.metadata,
        )

    def freeze(self, delivery: Delivery, content: Content) -> bytes | Failure:
        """The bytes that every attempt sends: Message-ID and Date are the delivery's own.

        A clone takes the bytes of its original, so that it says the same even if the template has
        changed.
        """
        original = content.results.get(FROZEN_ORIGINAL)
        if original is not None:
            own_id = message_id(delivery, self._senders.own.domain)
            return self._reissue(original, message_id=own_id, date_ms=delivery.created_at_ms)
        email = decode_message(content.payload)
        if not isinstance(email, Email):
            return Failure("payload_invalid", "reject", detail="the payload is not an e-mail")
        if email.template_id is not None:
            if self._catalog is None:
                return Failure("template_not_found", "reject", detail="no templates are loaded")
            rendered = self._catalog.render(email.template_id, email.locale, email.variables)
            if isinstance(rendered, Failure):
                return rendered
            email = rendered.into(email)
        sender = self._senders.sender_of(email)
        return self._build(
            email,
            message_id=message_id(delivery, sender.domain),
            date_ms=delivery.created_at_ms,
            sender=str(sender),
        )

    def is_rendered(self, delivery: Delivery) -> bool:
        """Whether it has a template: rendering may take long."""
        return delivery.topic is not None
