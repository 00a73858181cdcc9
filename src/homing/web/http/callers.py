"""Who calls: the holder of an API token, a person, or in open mode the user of this machine."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from homing.engine.access.tokens import RIGHTS, Right, Role


class Caller(Struct, frozen=True, kw_only=True):
    """`csrf_token` is what each change must carry where the browser itself proves who calls: by a
    cookie, or by what it sends to a proxy."""

    name: str
    role: Role
    kind: Literal["token", "person", "local"]
    sees_personal_data: bool = True
    csrf_token: str | None = None

    def may(self, right: Right) -> bool:
        return right in RIGHTS[self.role]

    def signed(self, actor: str | None) -> str:
        """Who an audit names: the person as given, and what was proved."""
        if actor is None or actor == self.name:
            return self.name
        if self.kind == "local":
            return actor
        proved = "token" if self.kind == "token" else "signed in as"
        return f"{actor} ({proved} {self.name})"
