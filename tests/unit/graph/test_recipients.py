"""Graph sends to the addresses in the header, so those must be the envelope's."""

from homing.domain.failure import Failure
from homing.providers.graph.recipients import mime_for
from tests.unit.graph.sending import MIME, envelope


def test_a_recipient_that_the_header_does_not_name_is_added_as_bcc() -> None:
    mime = mime_for(envelope("ann@example.org", "eve@example.org"))

    assert mime == b"Bcc: eve@example.org\r\n" + MIME


def test_the_message_is_left_alone_where_the_header_names_all() -> None:
    assert mime_for(envelope("Ann@Example.org")) == MIME
    data = MIME.replace(b"ann@example.org", b"ann@xn--bcher-kva.example")
    assert mime_for(envelope("ann@b\u00fccher.example", data=data)) == data


def test_a_message_that_would_reach_others_is_refused() -> None:
    data = MIME.replace(b"To: ", b"Cc: bob@example.org\r\nTo: ")
    refused = mime_for(envelope(data=data))

    assert isinstance(refused, Failure)
    assert (refused.error_class, refused.disposition) == ("recipients_differ", "reject")
