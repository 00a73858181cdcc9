"""A resent mail says what its original has said, under an identity of its own (M-112)."""

from __future__ import annotations

from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from typing import Any, cast

from homing.content.templates import Catalog, Rendered
from homing.domain.delivery import Delivery
from homing.domain.failure import Failure
from homing.domain.message import Attachment, Email, encode_message
from homing.runtime.mail_route import mail_route
from tests.unit.engine.providers import Provider
from tests.unit.engine.world import World

WHO: dict[str, Any] = {"actor": "ann", "reason": "asked for"}
MAIL = Email(to="ann@example.org", template_id="hello", attachments=[Attachment("a.txt", b"one")])


class Changing:
    """A catalog of one template, whose text changes with every rendering."""

    def __init__(self) -> None:
        self.version = 0

    def locales(self) -> dict[str, list[str]]:
        return {"hello": ["en"]}

    def render(
        self, template_id: str, locale: str | None, variables: Mapping[str, Any]
    ) -> Rendered:
        self.version += 1
        text, html = f"Version {self.version}", f"<p>Version {self.version}</p>"
        return Rendered("Hello", text, html=html, locale="en", locale_fallback_used=False)


class Post(World):
    def __init__(self, *answers: Failure) -> None:
        self.provider = Provider(*answers)
        super().__init__(
            mail_route(self.provider, sender="us@x.org", catalog=cast(Catalog, Changing()))
        )

    async def resend(self, delivery_id: str) -> Delivery:
        clone = await self.engine.ops.resend(delivery_id, **WHO)
        self.clock.advance(60)
        await self.run()
        return clone

    @property
    def sent(self) -> list[Message]:
        return [message_from_bytes(envelope.data) for envelope in self.provider.sent]


def parts(mail: Message) -> list[object]:
    return [part.get_payload() for part in mail.walk() if not part.is_multipart()]


async def test_a_clone_of_a_template_mail_sends_the_same_text() -> None:
    world = Post()
    original = await world.submit(message=MAIL)
    await world.run()
    world.clock.advance(86_400)

    clone = await world.resend(original.id)
    await world.resend(clone.id)

    first, second, third = world.sent
    assert parts(first) == parts(second) == parts(third)
    assert first["Subject"] == second["Subject"]
    assert len({mail["Message-ID"] for mail in world.sent}) == 3
    assert len({mail["Date"] for mail in world.sent}) == 3
    assert len({envelope.token for envelope in world.provider.sent}) == 3


async def test_a_clone_of_what_was_never_rendered_is_rendered() -> None:
    world = Post()
    original = await world.submit(message=MAIL)
    await world.engine.ops.cancel(original.id, **WHO)

    await world.resend(original.id)

    assert b"Version 1" in world.provider.sent[0].data


async def test_an_amended_clone_sends_its_own_text() -> None:
    world = Post()
    original = await world.submit(message=MAIL)
    await world.run()
    clone = await world.engine.ops.resend(original.id, **WHO)

    corrected = encode_message(Email(to="ann@example.org", subject="Sorry", text="Corrected"))
    await world.engine.ops.amend(clone.id, corrected, **WHO)
    await world.run()

    assert b"Corrected" in world.provider.sent[1].data


async def test_a_clone_of_an_amended_mail_sends_the_amended_text() -> None:
    refused = Failure("refused", "reject")
    world = Post(refused)
    original = await world.submit(message=MAIL)
    await world.run()
    corrected = encode_message(Email(to="ann@example.org", subject="Sorry", text="Corrected"))
    await world.engine.ops.amend(original.id, corrected, **WHO)

    await world.resend(original.id)

    assert b"Corrected" in world.provider.sent[1].data
