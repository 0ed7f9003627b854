"""Django's administration of its own accounts: FOLDER PORT. Its user `root` has the password `rootpass`."""

import os
import sys
from pathlib import Path

FOLDER, PORT = sys.argv[1:]

from django.conf import settings  # noqa: E402
from django.urls import path  # noqa: E402

settings.configure(
    DEBUG=True,
    SECRET_KEY="only of a test",
    ROOT_URLCONF=__name__,
    BASE_DIR=FOLDER,
    ALLOWED_HOSTS=["127.0.0.1"],  # its own name, and none of the gateway's
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path(FOLDER) / "accounts.sqlite3")}},
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    AUTH_PASSWORD_VALIDATORS=[],
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    STATIC_URL="static/",
    USE_TZ=True,
)

import django  # noqa: E402

django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.http import JsonResponse  # noqa: E402


def accounts(request):
    """Return accounts as JSON."""
    return JsonResponse({"accounts": list(User.objects.values("username", "email"))})


urlpatterns = [path("admin/", admin.site.urls), path("accounts.json", accounts)]

call_command("migrate", verbosity=0)
User.objects.create_superuser("root", "root@example.com", "rootpass")
os.environ["DJANGO_SETTINGS_MODULE"] = ""
call_command("runserver", f"127.0.0.1:{PORT}", use_reloader=False, skip_checks=True)
