"""The settings of verdict mails, with the names of their design."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Struct

from homing.domain.errors import SettingsError
from homing.plugins import env
from homing.providers.graph.env_file import EnvFile
from homing_systems.verdicts.route import DEFAULT_MAX_ATTEMPTS

ENV_FILE = "GRAPH_ENV_FILE"
HOME = "/home/nous"
DEFAULT_ENV_FILE = f"{HOME}/.env"
ALLOW_REPLAY = "EMAIL_RETRY_ALLOW_REPLAY"
PREFIXES = ("EMAIL_RETRY_", "EMAIL_DEAD_LETTER_", "EMAIL_DELIVERY_LOG_", "EMAIL_ALERT_LOG_")
PORT = 8006


class VerdictSettings(Struct, frozen=True, kw_only=True):
    queue: Annotated[str, env("EMAIL_RETRY_QUEUE_PATH", "The queue, a JSONL file.")] = (
        f"{HOME}/oracle_email_retry_queue.jsonl"
    )
    max_attempts: Annotated[
        int,
        env(
            "EMAIL_RETRY_MAX_ATTEMPTS",
            "After this many retries it becomes a dead letter.",
            ge=1,
            le=1000,
        ),
    ] = DEFAULT_MAX_ATTEMPTS
    allow_replay: Annotated[bool, env(ALLOW_REPLAY, "Whether dead ones may be replayed.")] = False
    dead_letters: Annotated[
        str,
        env("EMAIL_DEAD_LETTER_PATH", "A line for every dead letter, with all its error codes."),
    ] = f"{HOME}/oracle_email_dead_letter.jsonl"
    delivery_log: Annotated[
        str, env("EMAIL_DELIVERY_LOG_PATH", "A line for every session whose mail was sent.")
    ] = f"{HOME}/oracle_email_delivery.log"
    alert_log: Annotated[
        str, env("EMAIL_ALERT_LOG_PATH", "Alerts; if it cannot be written, the system journal.")
    ] = f"{HOME}/ALERT.log"
    service_url: Annotated[
        str, env("EMAIL_SERVICE_URL", "Where `homing verdicts webhook` finds the mail service.")
    ] = f"http://127.0.0.1:{PORT}"
    service_token: Annotated[
        str | None,
        env("EMAIL_SERVICE_TOKEN", "The API token for the mail service, if it asks.", secret=True),
    ] = None
    stripe_secret: Annotated[
        str | None,
        env(
            "STRIPE_WEBHOOK_SECRET",
            "Signs Stripe's events; without it all of them are refused.",
            secret=True,
        ),
    ] = None
    verdict_url: Annotated[
        str | None,
        env("VERDICT_URL", "`GET VERDICT_URL/SESSION_ID` answers with the verdict of a session."),
    ] = None
    env_file: Annotated[
        str, env(ENV_FILE, "Holds the Graph credentials, and any variable that is not set.")
    ] = DEFAULT_ENV_FILE
    sender: Annotated[
        str | None, env("GRAPH_SENDER", "The mailbox that verdicts are sent from.")
    ] = None


def environ_with_file(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of the process over those of the `.env` file, if that is there."""
    path = Path(environ.get(ENV_FILE) or DEFAULT_ENV_FILE)
    try:
        in_file = EnvFile(path).values()
    except FileNotFoundError:
        return environ
    except OSError as error:
        raise SettingsError(ENV_FILE, f"{path}: {error.strerror}") from None
    return {**{name: value for name, value in in_file.items() if value}, **environ}


def defaults(own: VerdictSettings) -> Mapping[str, Any]:
    """Defaults of store, provider and server, which HOMING_* can override."""
    return {
        "store": f"jsonl:///{Path(own.queue).absolute()}",
        "provider": f"graph:?env_file={quote(own.env_file)}",
        "sender": own.sender,
        "log.alert_file": own.alert_log,
        "server.port": PORT,
    }
