"""The OpenAPI document, made from the table of operations and the types. `python -m` prints it."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import Struct

from homing.domain.delivery import State
from homing.engine.ops.delivery_filter import status_words
from homing.web.access.cookies import HOST_ONLY, SESSION
from homing.web.api.operations import OPERATIONS, PUBLIC, EventStreamOf, Operation, Parameter
from homing.web.api.schemas import AcceptedOut, BatchOut, BulkOut, ListOut
from homing.web.http.answers import PHRASES
from homing.web.http.problems import Problem

REF = "#/components/schemas/{name}"
# What any call can meet, whatever it asks for.
ALWAYS = (403, 500, 503)
# In which answers an id stands, and where.
FOUND_IN: dict[Any, tuple[str, str]] = {
    AcceptedOut: ("delivery_id", "/delivery_id"),
    BatchOut: ("delivery_id", "/items/0/delivery_id"),
    ListOut: ("delivery_id", "/items/0/delivery_id"),
    BulkOut: ("bulk_id", "/bulk_id"),
}
# The answers that show a delivery's status, which is a word of its route.
SHOW_STATUS = frozenset({"AcceptedOut", "BatchAnswer", "BulkPreview", "DeliveryView"})
TITLES = {401: "No valid credentials", 403: "This caller may not do that"}


class Described(Struct, frozen=True, kw_only=True):
    """What differs between two services: the document describes the one that serves it.

    `words` are the status words of its routes, `left_out` the operations that it does not serve,
    `base` is the path under which it is mounted.
    """

    left_out: frozenset[str] = frozenset()
    words: tuple[str, ...] = status_words({})
    needs_token: bool = True
    base: str = ""


DEFAULT = Described()


@functools.lru_cache(maxsize=8)
def document(service: Described = DEFAULT) -> bytes:
    """As it is checked in and served: UTF-8, indented, the same on every machine."""
    return (json.dumps(describe(service), indent=2, ensure_ascii=False) + "\n").encode()


def describe(service: Described = DEFAULT) -> dict[str, Any]:
    operations = tuple(each for each in OPERATIONS if each.name not in service.left_out)
    types = _types(operations)
    refs, schemas = msgspec.json.schema_components(types, ref_template=REF)
    schema_of = dict(zip(map(_key, types), refs, strict=True))
    # A delivery of a route that this process does not know is shown with its state.
    shown = {*service.words, *get_args(State)}
    for name in SHOW_STATUS & schemas.keys():
        _set_words(schemas[name]["properties"]["status"], shown)
    _set_words(schemas["DeliveryFilter"]["properties"]["status"], service.words)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _operation(operation, schema_of)
        for parameter in described["parameters"]:
            if parameter["name"] == "status":
                parameter["schema"] = {"type": "string", "enum": list(service.words)}
        if not service.needs_token:
            described["responses"].pop("401", None)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Homing",
            "version": "1",
            "description": "Durable delivery of e-mails, events and job results: delivered,"
            " or kept for a person with the reason.",
        },
        "servers": [{"url": service.base or "/"}],
        "security": [{"token": []}, {"session": []}] if service.needs_token else [],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API token (`homing token create`).",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": HOST_ONLY + SESSION,
                    "description": "The session of a person (`POST /api/v1/sign-in`); changes need"
                    " `X-CSRF-Token` as well. On plain loopback the name has no prefix.",
                },
            },
        },
    }


def _set_words(schema: dict[str, Any], words: Iterable[str]) -> None:
    text = schema["anyOf"][0] if "anyOf" in schema else schema
    text["enum"] = sorted(words)


def _types(operations: tuple[Operation, ...]) -> list[Any]:
    found: list[Any] = [Problem]
    for operation in operations:
        for given in operation.gives.values():
            found += [_bare(kind) for kind in _kinds(given) if not isinstance(kind, str)]
        found += [parameter.kind for parameter in (*operation.query, *operation.headers)]
        if operation.takes is not None:
            found.append(operation.takes)
    return list({_key(kind): kind for kind in found}.values())


def _kinds(given: Any) -> tuple[Any, ...]:
    """The kinds of content of one answer."""
    return given if isinstance(given, tuple) else (given,)


def _bare(kind: Any) -> Any:
    return kind.kind if isinstance(kind, EventStreamOf) else kind


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        "parameters": [
            *(_path_parameter(name) for name in re.findall(r"{(\w+)}", operation.path)),
            *(_parameter(one, "query", schema_of) for one in operation.query),
            *(_parameter(one, "header", schema_of) for one in operation.headers),
        ],
        "responses": _responses(operation, schema_of),
    }
    if operation.takes is not None:
        content = {"schema": schema_of[_key(operation.takes)], "example": operation.example}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    if operation.right == PUBLIC:
        described["security"] = []
    else:
        described["x-right"] = operation.right
    return described


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(parameter: Parameter, where: str, schema_of: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": where,
        "required": parameter.required,
        "description": parameter.about,
        "schema": schema_of[_key(parameter.kind)],
    }


def _responses(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    responses: dict[int, Any] = {}
    for status, kind in operation.gives.items():
        content: dict[str, Any] = {}
        for one in _kinds(kind):
            content |= _content(one, schema_of)
        responses[status] = {"description": PHRASES[status], "content": content}
        if links := _links(kind):
            responses[status]["links"] = links
    refuses = set(operation.refuses) | {400}
    if operation.right != PUBLIC:
        refuses |= {401, *ALWAYS}
    for status in refuses - responses.keys():
        responses[status] = _problem(status, schema_of)
    return {str(status): responses[status] for status in sorted(responses)}


def _content(kind: Any, schema_of: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "string"}}}
    schema = schema_of[_key(_bare(kind))]
    if not isinstance(kind, EventStreamOf):
        return {"application/json": {"schema": schema}}
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    event = {"type": "object", "properties": {"event": {"type": "string"}, "data": data}}
    return {"text/event-stream": {"schema": event}}


def _links(kind: Any) -> dict[str, Any]:
    """Where the id in an answer can be used next."""
    place = None if isinstance(kind, str) else FOUND_IN.get(kind)
    if place is None:
        return {}
    name, expression = place
    return {
        operation.name: {
            "operationId": operation.name,
            "parameters": {name: f"$response.body#{expression}"},
        }
        for operation in OPERATIONS
        if f"{{{name}}}" in operation.path
    }


def _problem(status: int, schema_of: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": TITLES.get(status) or PHRASES[status],
        "content": {"application/problem+json": {"schema": schema_of[_key(Problem)]}},
    }
    if status == 401:
        described["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    if status in (429, 503, 507):
        described["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return described


if __name__ == "__main__":
    sys.stdout.buffer.write(document())
