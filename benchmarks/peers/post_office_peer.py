"""django-post_office on PostgreSQL: e-mail into smtp-sink."""
# The peers are not installed where the types are checked:
# mypy: disable-error-code="import-not-found, import-untyped"

import time
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command

from benchmarks.contest.mails import BODY, RECIPIENT, SENDER, SUBJECT
from benchmarks.contest.plan import Plan, report

PLAN = Plan.from_environment()
PROCESSES, THREADS, BATCH = 2, 5, 1000


def configure() -> None:
    smtp, postgres = urlsplit(PLAN.servers["smtp"]), urlsplit(PLAN.servers["postgres"])
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "post_office"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": postgres.path.strip("/"),
                "USER": postgres.username,
                "HOST": postgres.hostname,
                "PORT": postgres.port,
            }
        },
        TEMPLATES=[
            {"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}
        ],
        USE_TZ=True,
        SECRET_KEY="x",
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        LOGGING_CONFIG=None,
        EMAIL_HOST=smtp.hostname,
        EMAIL_PORT=smtp.port,
        EMAIL_BACKEND="post_office.EmailBackend",
        POST_OFFICE={
            "BACKENDS": {"default": "django.core.mail.backends.smtp.EmailBackend"},
            "BATCH_SIZE": BATCH,
            "THREADS_PER_PROCESS": THREADS,
            "LOG_LEVEL": 1,
            "MESSAGE_ID_ENABLED": False,
        },
    )
    django.setup()
    call_command("migrate", verbosity=0)


def main() -> None:
    configure()
    from post_office import mail
    from post_office.models import Email

    Email.objects.all().delete()
    one = {"recipients": [RECIPIENT], "sender": SENDER, "subject": SUBJECT, "message": BODY}
    began_s = time.perf_counter()
    mail.send_many([{**one, "priority": "medium"} for _ in range(PLAN.mails)])
    accepted_s = time.perf_counter() - began_s
    call_command("send_queued_mail", processes=PROCESSES)
    delivered_s = time.perf_counter() - began_s
    if (sent := Email.objects.filter(status=0).count()) != PLAN.mails:
        raise RuntimeError(f"only {sent} of {PLAN.mails} mails were sent")
    report(
        {
            "mail_accept": PLAN.mails / accepted_s,
            "mail_end_to_end": PLAN.mails / delivered_s,
        },
        {
            "mails": PLAN.mails,
            "worker": f"{PROCESSES} processes x {THREADS} threads, batches of {BATCH}",
            "accept": "send_many, then send_queued_mail",
        },
    )


if __name__ == "__main__":
    main()
