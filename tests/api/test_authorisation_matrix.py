"""Who may call what: every operation of the description, by everybody who might try.

Each call begins in a copy of the same store. A new operation without a row fails; so does a row without its operation.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.api.conftest import INFO, PASSWORD, Api, make_api
from tests.support.application import routed_once
from tests.support.issues import wanted
from tests.support.world import CLIENT, World

from postern.api.application import serve
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import PrincipalStatus
from postern.domain.issues.issue import IssueState
from postern.domain.runbook import repository_name
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey
from postern.store.database import Database

pytestmark = pytest.mark.ci

MASTER = b"\x07" * 32
NOBODY = ("anonymous", "agent key", "expired token", "inactive user", "revoked key", "key of an inactive one")
# Whose columns the table has, in this order. `ann` owns what is owned; `elsewhere` is another organisation's admin.
CALLERS = ("bob", "ann", "auditor", "admin", "key", "auditor key", "admin key", "elsewhere")

TOGGLES = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema"), "enabled")
CONNECTION = {"type": "database", "subtype": "postgres", "agent_id": "{agent}", **TOGGLES}
RULES = {"rules": [{"type": "deny_words_list", "words": ["x"]}]}
SCIM_USER = "urn:ietf:params:scim:schemas:core:2.0:User"
SCIM_GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
SCIM_PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
PATCH = {"schemas": [SCIM_PATCH], "Operations": [{"op": "replace", "path": "displayName", "value": "x"}]}

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAVsI/8KYdbW2MFt1cN27vxkoUBnHcZEM5m+NzEIkaPm"
OTHER_SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBVsI/8KYdbW2MFt1cN27vxkoUBnHcZEM5m+NzEIkaPm"
REVIEW_RULE = {"access_type": "jit", "reviewers_groups": ["leads"], "connection_tags": {"stage": "prod"}}
REPOSITORY, RUNBOOKS = "https://git.example.com/acme/ops", {"a.runbook.sh": "echo"}
TRACKER = {"kind": "jira_cloud", "url": "https://acme.example.com", "user": "ann@example.com", "token": "x"}
ASSETS = {"items": [{"tracker_field": "asset", "tracker_object_type": "Server"}]}
ISSUES = {"project_key": "OPS", "request_type_id": "10", "cmdb_types": ASSETS}
RUNBOOK_RULE = {"runbooks": [{"repository": "git.example.com/acme/ops"}], "connections": [], "user_groups": []}
SCHEDULE = {"connection_name": "shop", "file_name": "a.runbook.sh", "cron": "0 3 * * *"}
FEDERATION_RULE = {
    "service_account": "robot",
    "issuer_url": "https://id.example.com",
    "audience": "https://gateway.example.com",
    "claims": {"sub": ["system:serviceaccount:ci:deploy"]},
}
SINK = {"kind": "webhook", "address": "https://siem.example.com/", "events": ["audit.entry"]}

# Whose `{id}` it is.
_IDS = {
    "/audit": "entry",
    "/reviews": "review",
}
# That need a session with a review, which ann's other one has not.
_REVIEWED = ("/sessions/{session_id}/review", "/sessions/{session_id}/exec")

BODIES: Mapping[tuple[str, str], Any] = {
    ("POST", "/agents"): {"name": "new"},
    ("POST", "/network-rules"): {"name": "new", "allowed_networks": ["192.0.2.0/24"], "groups": ["crew"]},
    ("PUT", "/network-rules/{nameOrID}"): {
        "name": "renamed",
        "allowed_networks": ["192.0.2.0/24"],
        "groups": ["crew"],
    },
    ("PATCH", "/network-rules/{nameOrID}"): {"connection_names": ["shop"]},
    ("POST", "/access-rules"): {"name": "new", "groups": ["crew"]},
    ("PUT", "/access-rules/{nameOrID}"): {"name": "renamed", "groups": ["crew"]},
    ("PATCH", "/access-rules/{nameOrID}"): {"connection_names": ["shop"]},
    ("POST", "/access-requests/rules"): {**REVIEW_RULE, "name": "new"},
    ("PUT", "/access-requests/rules/{nameOrID}"): {**REVIEW_RULE, "name": "renamed"},
    ("PATCH", "/access-requests/rules/{nameOrID}"): {"min_approvals": 2},
    ("POST", "/api-keys"): {"name": "new"},
    ("PUT", "/api-keys/{nameOrID}"): {"name": "renamed"},
    ("PATCH", "/api-keys/{nameOrID}"): {"name": "renamed"},
    ("POST", "/connections"): {**CONNECTION, "name": "new"},
    ("PUT", "/connections/{nameOrID}"): {**CONNECTION, "name": "shop"},
    ("PATCH", "/connections/{nameOrID}"): {"tags": ["x"]},
    ("PUT", "/feature-flags/{name}"): {"enabled": True},
    ("POST", "/guardrails"): {"name": "new", "input": RULES},
    ("PUT", "/guardrails/{nameOrID}"): {"name": "renamed", "input": RULES},
    ("PATCH", "/guardrails/{nameOrID}"): {"input": RULES},
    ("POST", "/datamasking-rules"): {"name": "new", "columns": ["email"]},
    ("POST", "/connections/{nameOrID}/preview"): {"script": "select 1"},
    ("POST", "/datamasking-rules/test"): {"rule": {"name": "new", "columns": ["email"]}, "texts": ["x"]},
    ("PUT", "/datamasking-rules/{nameOrID}"): {"name": "renamed", "columns": ["email"]},
    ("PATCH", "/datamasking-rules/{nameOrID}"): {"columns": ["phone"]},
    ("POST", "/guardrails/test"): {"text": "x", "guardrail": {"input": RULES}},
    ("POST", "/guardrails/simulate"): {"guardrail": {"input": RULES}},
    ("POST", "/guardrails/{nameOrID}/simulate"): {"guardrail": {"input": RULES}},
    ("POST", "/localauth/login"): {"email": "ann@example.com", "password": PASSWORD},
    ("POST", "/localauth/register"): {"email": "x@example.com", "password": PASSWORD},
    ("POST", "/localauth/second-factor"): {"ticket": "made up", "kind": "totp", "code": "123456"},
    ("POST", "/localauth/setup"): {"token": "made up", "password": PASSWORD},
    ("POST", "/login/device"): {},
    ("POST", "/login/device/token"): {"device_code": "made up"},
    ("POST", "/login/exchange"): {"code": "made up", "code_verifier": "v" * 43},
    ("POST", "/login/step-up"): {"password": PASSWORD},
    ("POST", "/machineidentities"): {"name": "new", "connection_names": []},
    ("PUT", "/machineidentities/{nameOrID}"): {"description": "x"},
    ("PATCH", "/machineidentities/{nameOrID}"): {"description": "x"},
    ("POST", "/orgs"): {"name": "third", "admin_email": "x@example.org"},
    ("POST", "/federation-rules"): {**FEDERATION_RULE, "name": "new"},
    ("PUT", "/federation-rules/{nameOrID}"): {**FEDERATION_RULE, "name": "renamed"},
    ("PATCH", "/federation-rules/{nameOrID}"): {"description": "x"},
    ("PUT", "/orgs/features"): {"name": "api-keys", "status": "enabled"},
    ("PUT", "/orgs/self"): {"auditor_role_name": "readers"},
    ("POST", "/scim/v2/Groups"): {"schemas": [SCIM_GROUP], "displayName": "new"},
    ("PUT", "/scim/v2/Groups/{id}"): {"schemas": [SCIM_GROUP], "displayName": "renamed"},
    ("PATCH", "/scim/v2/Groups/{id}"): PATCH,
    ("POST", "/scim/v2/Users"): {"schemas": [SCIM_USER], "userName": "new@example.com"},
    ("PUT", "/scim/v2/Users/{id}"): {"schemas": [SCIM_USER], "userName": "bob@example.com"},
    ("PATCH", "/scim/v2/Users/{id}"): PATCH,
    ("POST", "/proxymanager/connect"): {"connection_name": "shop"},
    ("PUT", "/serverconfig/auth"): {"auth_method": "local"},
    ("PUT", "/serverconfig/misc"): {"public_host": "pg.example.com"},
    ("POST", "/serverconfig/token-keys/rotate"): {},
    ("POST", "/serviceaccounts"): {"subject": "new", "status": "active"},
    ("PUT", "/serviceaccounts/{nameOrID}"): {"name": "x"},
    ("PATCH", "/serviceaccounts/{nameOrID}"): {"name": "x"},
    ("PUT", "/retention"): {"recording_days": 30, "session_days": 90},
    ("PUT", "/retention/connections/{nameOrID}"): {"recording_days": 30, "session_days": 90},
    ("POST", "/sessions/{session_id}/holds"): {"name": "another", "reason": "court order"},
    ("POST", "/sessions/{session_id}/purge"): {"what": "session", "reason": "asked to"},
    ("POST", "/sessions"): {"connection": "shop", "script": "select 1"},
    ("POST", "/reviews"): {"connection": "shop"},
    ("PUT", "/reviews/{id}"): {"status": "REJECTED"},
    ("PUT", "/sessions/{session_id}/review"): {"status": "rejected"},
    ("POST", "/runbooks/configurations"): {"git_url": "https://git.example.com/new"},
    ("PUT", "/runbooks/configurations"): {"repositories": [{"git_url": "https://git.example.com/new"}]},
    ("PUT", "/runbooks/configurations/{nameOrID}"): {"git_url": REPOSITORY, "git_branch": "next"},
    ("PATCH", "/runbooks/configurations/{nameOrID}"): {"git_branch": "next"},
    ("POST", "/runbooks/configurations/{nameOrID}/files"): {"path": "new.runbook.sh", "content": "echo"},
    ("POST", "/runbooks/exec"): {"connection_name": "shop", "file_name": "a.runbook.sh"},
    ("POST", "/runbooks/render"): {"connection_name": "shop", "file_name": "a.runbook.sh"},
    ("POST", "/integrations/tracker"): TRACKER,
    ("PUT", "/integrations/tracker"): TRACKER,
    ("POST", "/integrations/tracker/issuetemplates"): {**ISSUES, "name": "new"},
    ("PATCH", "/integrations/tracker/issuetemplates/{nameOrID}"): {"name": "renamed"},
    ("PUT", "/integrations/tracker/issuetemplates/{nameOrID}"): {**ISSUES, "name": "renamed"},
    ("POST", "/integrations/tracker/issuetemplates/preview"): {"template": {**ISSUES, "name": "new"}},
    ("POST", "/integrations/tracker/test"): {},
    ("POST", "/runbooks/rules"): {**RUNBOOK_RULE, "name": "new"},
    ("PUT", "/runbooks/rules/{nameOrID}"): {**RUNBOOK_RULE, "name": "renamed"},
    ("PATCH", "/runbooks/rules/{nameOrID}"): {"user_groups": ["crew"]},
    ("POST", "/runbooks/schedules"): {**SCHEDULE, "name": "new"},
    ("PUT", "/runbooks/schedules/{nameOrID}"): {**SCHEDULE, "name": "renamed"},
    ("PATCH", "/runbooks/schedules/{nameOrID}"): {"cron": "1 2 * * *"},
    ("POST", "/sinks"): {**SINK, "name": "new"},
    ("PATCH", "/sinks/{nameOrID}"): {"paused": False},
    ("PUT", "/sinks/{nameOrID}"): {**SINK, "name": "renamed"},
    ("POST", "/sinks/{nameOrID}/redeliver"): {},
    ("POST", "/sshauthorities"): {"name": "new", "public_key": OTHER_SSH_KEY},
    ("PUT", "/sshauthorities/{nameOrID}"): {"name": "renamed", "public_key": SSH_KEY},
    ("PATCH", "/sshauthorities/{nameOrID}"): {"name": "renamed"},
    ("POST", "/devicelogins/confirm"): {"code": "AAAA-BBBB", "answer": "deny"},
    ("POST", "/sshlogins/confirm"): {"code": "AAAA-BBBB", "answer": "deny"},
    ("POST", "/applogins"): {"host": "grafana", "challenge": "a" * 43},
    ("POST", "/sshkeys"): {"name": "new", "public_key": OTHER_SSH_KEY},
    ("PUT", "/users/self/preferences"): {"theme": "dark"},
    ("POST", "/users"): {"email": "new@example.com"},
    ("POST", "/users/groups"): {"name": "new"},
    ("PUT", "/users/groups/{nameOrID}"): {"name": "renamed"},
    ("PATCH", "/users/groups/{nameOrID}"): {"name": "renamed"},
    ("PUT", "/users/self/password"): {"current_password": PASSWORD, "new_password": "another long password"},
    ("POST", "/users/self/second-factors"): {"kind": "totp", "name": "phone", "current_password": PASSWORD},
    ("POST", "/users/self/second-factors/recovery-codes"): {"current_password": PASSWORD},
    ("DELETE", "/users/self/second-factors/{factor_id}"): {"current_password": PASSWORD},
    ("POST", "/users/self/second-factors/{factor_id}/confirm"): {"code": "123456"},
    ("PUT", "/users/{nameOrID}"): {"name": "Bobby"},
    ("PATCH", "/users/{nameOrID}"): {"name": "Bobby"},
}
QUERIES = {
    ("GET", "/sessions/{session_id}/matches"): "?search=select",
    ("DELETE", "/orgs/{org_id}"): "?name=elsewhere",
    ("GET", "/connections/{nameOrID}/columns"): "?table=orders",
    ("GET", "/integrations/tracker/assets/objects"): "?object_type=Server",
    ("GET", "/callback"): "?state=made-up&code=x",
    ("GET", "/login"): "?redirect=http://localhost:7480/",
    ("GET", "/login/ssh"): "?user_code=AAAA-BBBB",
    ("GET", "/devicelogins"): "?code=AAAA-BBBB",
    ("GET", "/sshlogins"): "?code=AAAA-BBBB",
    ("GET", "/applogins"): "?host=grafana",
    ("GET", "/login/device"): "?user_code=AAAA-BBBB",
    ("GET", "/runbooks/file"): "?name=a.runbook.sh",
    ("GET", "/runbooks/schedule-times"): "?cron=0%203%20*%20*%20*",
}

# fmt: off
#                                                                            bob ann aud adm key auk adk els
TABLE: Mapping[tuple[str, str], str] = {
    ("GET", "/access-requests/rules"):                                      "403 403 200 200 403 200 200 200",
    ("POST", "/access-requests/rules"):                                     "403 403 403 201 403 403 201 201",
    ("DELETE", "/access-requests/rules/{nameOrID}"):                        "403 403 403 204 403 403 204 404",
    ("GET", "/access-requests/rules/{nameOrID}"):                           "403 403 200 200 403 200 200 404",
    ("PUT", "/access-requests/rules/{nameOrID}"):                           "403 403 403 200 403 403 200 404",
    ("PATCH", "/access-requests/rules/{nameOrID}"):                         "403 403 403 200 403 403 200 404",
    ("GET", "/network-rules"):                                              "403 403 200 200 403 200 200 200",
    ("POST", "/network-rules"):                                             "403 403 403 201 403 403 201 201",
    ("DELETE", "/network-rules/{nameOrID}"):                                "403 403 403 204 403 403 204 404",
    ("GET", "/network-rules/{nameOrID}"):                                   "403 403 200 200 403 200 200 404",
    ("PUT", "/network-rules/{nameOrID}"):                                   "403 403 403 200 403 403 200 404",
    ("PATCH", "/network-rules/{nameOrID}"):                                 "403 403 403 200 403 403 200 404",
    ("GET", "/access-rules"):                                               "403 403 200 200 403 200 200 200",
    ("POST", "/access-rules"):                                              "403 403 403 201 403 403 201 201",
    ("DELETE", "/access-rules/{nameOrID}"):                                 "403 403 403 204 403 403 204 404",
    ("GET", "/access-rules/{nameOrID}"):                                    "403 403 200 200 403 200 200 404",
    ("PUT", "/access-rules/{nameOrID}"):                                    "403 403 403 200 403 403 200 404",
    ("PATCH", "/access-rules/{nameOrID}"):                                  "403 403 403 200 403 403 200 404",
    ("GET", "/agents"):                                                     "200 200 200 200 200 200 200 200",
    ("POST", "/agents"):                                                    "403 403 403 201 403 403 201 201",
    ("DELETE", "/agents/{nameOrID}"):                                       "403 403 403 204 403 403 204 404",
    ("GET", "/agents/{nameOrID}"):                                          "200 200 200 200 200 200 200 404",
    ("POST", "/agents/{nameOrID}/drain"):                                   "403 403 403 204 403 403 204 404",
    ("POST", "/agents/{nameOrID}/key"):                                     "403 403 403 200 403 403 200 404",
    ("GET", "/api-keys"):                                                   "403 403 200 200 403 200 200 200",
    ("POST", "/api-keys"):                                                  "403 403 403 201 403 403 403 201",
    ("DELETE", "/api-keys/{nameOrID}"):                                     "403 403 403 204 403 403 204 404",
    ("GET", "/api-keys/{nameOrID}/credentials"):                            "403 403 200 200 403 200 200 404",
    ("GET", "/api-keys/{nameOrID}"):                                        "403 403 200 200 403 200 200 404",
    ("PUT", "/api-keys/{nameOrID}"):                                        "403 403 403 200 403 403 403 404",
    ("PATCH", "/api-keys/{nameOrID}"):                                      "403 403 403 200 403 403 403 404",
    ("POST", "/api-keys/{nameOrID}/reactivate"):                            "403 403 403 422 403 403 403 404",
    ("GET", "/audit/logs"):                                                 "403 403 200 200 403 200 200 200",
    ("GET", "/audit/logs/{id}"):                                            "403 403 200 200 403 200 200 404",
    ("GET", "/audit/logs/facets"):                                          "403 403 200 200 403 200 200 200",
    ("GET", "/connection-tags"):                                            "200 200 200 200 200 200 200 200",
    ("GET", "/connection-types"):                                           "200 200 200 200 200 200 200 200",
    ("GET", "/connections"):                                                "200 200 200 200 200 200 200 200",
    ("POST", "/connections"):                                               "403 403 403 201 403 403 201 422",
    ("DELETE", "/connections/{nameOrID}"):                                  "403 403 403 204 403 403 204 404",
    ("GET", "/connections/{nameOrID}"):                                     "200 200 200 200 200 200 200 404",
    ("PATCH", "/connections/{nameOrID}"):                                   "403 403 403 200 403 403 200 404",
    ("PUT", "/connections/{nameOrID}"):                                     "403 403 403 200 403 403 200 404",
    ("GET", "/connections/{nameOrID}/access"):                              "200 200 200 200 200 200 200 404",
    # No worker runs target tasks here, so permitted requests time out.
    ("GET", "/connections/{nameOrID}/columns"):                             "503 503 403 503 503 403 503 404",
    ("GET", "/connections/{nameOrID}/databases"):                           "503 503 403 503 503 403 503 404",
    ("POST", "/connections/{nameOrID}/preview"):                            "503 503 403 503 503 403 503 404",
    ("GET", "/connections/{nameOrID}/schema"):                              "503 503 403 503 503 403 503 404",
    ("GET", "/connections/{nameOrID}/tables"):                              "503 503 403 503 503 403 503 404",
    ("GET", "/connections/{nameOrID}/test"):                                "503 503 403 503 503 403 503 404",
    ("GET", "/connections/{nameOrID}/credentials"):                         "200 200 200 200 200 200 200 404",
    ("POST", "/connections/{nameOrID}/credentials"):                        "201 201 403 201 201 403 201 404",
    ("DELETE", "/connections/{nameOrID}/credentials/{credential_id}"):      "404 204 404 204 404 404 204 404",
    ("POST", "/connections/{nameOrID}/credentials/{credential_id}/revoke"): "404 204 404 204 404 404 204 404",
    # A database has no terminal: nobody who sees the connection gets one.
    ("GET", "/connections/{nameOrID}/terminal"):                            "403 403 403 403 403 403 403 404",
    ("GET", "/connections/{nameOrID}/hostkeys"):                            "403 403 200 200 403 200 200 404",
    ("DELETE", "/connections/{nameOrID}/hostkeys"):                         "403 403 403 204 403 403 204 404",
    ("GET", "/credentials"):                                                "200 200 200 200 200 200 200 200",
    # Only those of the caller: an administrator revokes those of others by their connection.
    ("POST", "/credentials/{credential_id}/revoke"):                        "404 204 404 404 404 404 404 404",
    ("GET", "/configuration/kinds"):                                        "200 200 200 200 200 200 200 200",
    ("GET", "/feature-flags"):                                              "200 200 200 200 200 200 200 200",
    ("PUT", "/feature-flags/{name}"):                                       "403 403 403 200 403 403 200 200",
    ("GET", "/datamasking-rules"):                                          "403 403 200 200 403 200 200 200",
    ("POST", "/datamasking-rules"):                                         "403 403 403 201 403 403 201 201",
    ("GET", "/datamasking-rules/presets"):                                  "403 403 200 200 403 200 200 200",
    ("GET", "/datamasking-rules/types"):                                    "403 403 200 200 403 200 200 200",
    ("POST", "/datamasking-rules/test"):                                    "403 403 200 200 403 200 200 200",
    ("DELETE", "/datamasking-rules/{nameOrID}"):                            "403 403 403 204 403 403 204 404",
    ("GET", "/datamasking-rules/{nameOrID}"):                               "403 403 200 200 403 200 200 404",
    ("PUT", "/datamasking-rules/{nameOrID}"):                               "403 403 403 200 403 403 200 404",
    ("PATCH", "/datamasking-rules/{nameOrID}"):                             "403 403 403 200 403 403 200 404",
    ("GET", "/guardrails"):                                                 "403 403 200 200 403 200 200 200",
    ("POST", "/guardrails"):                                                "403 403 403 201 403 403 201 201",
    ("DELETE", "/guardrails/{nameOrID}"):                                   "403 403 403 204 403 403 204 404",
    ("GET", "/guardrails/{nameOrID}"):                                      "403 403 200 200 403 200 200 404",
    ("GET", "/reviews"):                                                    "200 200 200 200 200 200 200 200",
    # The connection needs no review: who may connect is told so.
    ("POST", "/reviews"):                                                   "201 201 403 201 201 403 201 404",
    ("GET", "/reviews/{id}"):                                               "404 200 200 200 404 200 200 404",
    # Who asked may give it up; an administrator may reject it; a program decides nothing.
    ("PUT", "/reviews/{id}"):                                               "404 200 403 200 404 403 403 404",
    ("PUT", "/sessions/{session_id}/review"):                               "404 200 403 200 404 403 403 404",
    ("POST", "/reviews/{id}/withdraw"):                                     "404 200 403 403 404 403 403 404",
    ("GET", "/guardrails/presets"):                                         "403 403 200 200 403 200 200 200",
    ("POST", "/guardrails/test"):                                           "403 403 200 200 403 200 200 200",
    ("POST", "/guardrails/simulate"):                                       "403 403 200 200 403 200 200 200",
    ("POST", "/guardrails/{nameOrID}/simulate"):                                  "403 403 200 200 403 200 200 404",
    ("PUT", "/guardrails/{nameOrID}"):                                      "403 403 403 200 403 403 200 404",
    ("PATCH", "/guardrails/{nameOrID}"):                                    "403 403 403 200 403 403 200 404",
    ("POST", "/login/refresh"):                                             "200 200 200 200 422 422 422 200",
    # The administrator's password is a different one. Keys have nothing to confirm.
    ("POST", "/login/step-up"):                                             "200 200 200 403 403 403 403 200",
    ("POST", "/login/step-up/challenge"):                                   "201 201 201 201 403 403 403 201",
    ("GET", "/login/session"):                                              "200 200 200 200 200 200 200 200",
    ("DELETE", "/integrations/tracker"):                                    "403 403 403 204 403 403 204 404",
    ("GET", "/integrations/tracker"):                                       "200 200 200 200 200 200 200 404",
    ("POST", "/integrations/tracker"):                                      "403 403 403 409 403 403 409 201",
    ("PUT", "/integrations/tracker"):                                       "403 403 403 200 403 403 200 404",
    ("GET", "/integrations/tracker/assets/objects"):                        "422 422 422 422 422 422 422 404",
    ("GET", "/integrations/tracker/issues"):                                "403 403 200 200 403 200 200 200",
    ("POST", "/integrations/tracker/issues/retry"):                         "403 403 403 202 403 403 202 202",
    ("POST", "/integrations/tracker/issues/{session_id}/retry"):            "403 403 403 202 403 403 202 404",
    ("GET", "/integrations/tracker/issuetemplates"):                        "200 200 200 200 200 200 200 200",
    ("POST", "/integrations/tracker/issuetemplates"):                       "403 403 403 201 403 403 201 201",
    ("POST", "/integrations/tracker/issuetemplates/preview"):               "403 403 403 200 403 403 200 200",
    ("DELETE", "/integrations/tracker/issuetemplates/{nameOrID}"):          "403 403 403 204 403 403 204 404",
    ("GET", "/integrations/tracker/issuetemplates/{nameOrID}"):             "200 200 200 200 200 200 200 404",
    ("PATCH", "/integrations/tracker/issuetemplates/{nameOrID}"):           "403 403 403 200 403 403 200 404",
    ("PUT", "/integrations/tracker/issuetemplates/{nameOrID}"):             "403 403 403 200 403 403 200 404",
    ("POST", "/integrations/tracker/test"):                                 "403 403 403 422 403 403 422 404",
    ("GET", "/logins"):                                                     "200 200 200 200 200 200 200 200",
    ("DELETE", "/logins"):                                                  "200 200 200 200 200 200 200 200",
    ("DELETE", "/logins/{login_id}"):                                       "404 204 404 204 404 404 204 404",
    ("POST", "/logout"):                                                    "204 204 204 204 422 422 422 204",
    ("GET", "/machineidentities"):                                          "403 403 200 200 403 200 200 200",
    ("POST", "/machineidentities"):                                         "403 403 403 201 403 403 201 201",
    ("DELETE", "/machineidentities/{nameOrID}"):                            "403 403 403 204 403 403 204 404",
    ("GET", "/machineidentities/{nameOrID}"):                               "403 403 200 200 403 200 200 404",
    ("PUT", "/machineidentities/{nameOrID}"):                               "403 403 403 200 403 403 200 404",
    ("PATCH", "/machineidentities/{nameOrID}"):                             "403 403 403 200 403 403 200 404",
    ("GET", "/machineidentities/{nameOrID}/credentials"):                   "403 403 200 200 403 200 200 404",
    ("POST", "/machineidentities/{nameOrID}/credentials/{connection}/rotate"): "403 403 403 200 403 403 200 404",
    ("GET", "/metrics"):                                                    "403 403 200 200 403 200 200 403",
    ("GET", "/orgs"):                                                       "200 200 200 200 200 200 200 200",
    ("POST", "/orgs"):                                                      "403 403 403 201 403 403 403 403",
    ("PUT", "/orgs/features"):                                              "403 403 403 204 403 403 204 204",
    ("DELETE", "/orgs/{org_id}"):                                           "403 403 403 202 403 403 403 403",
    ("GET", "/orgs/self"):                                                  "200 200 200 200 200 200 200 200",
    ("PUT", "/orgs/self"):                                                  "403 403 403 200 403 403 403 200",
    ("POST", "/proxymanager/connect"):                                      "404 404 403 404 404 403 404 404",
    ("POST", "/proxymanager/disconnect"):                                   "404 404 404 404 404 404 404 404",
    ("GET", "/proxymanager/status"):                                        "404 404 404 404 404 404 404 404",
    # There is nothing in the ledger here.
    ("GET", "/holds"):                                                      "403 403 200 200 403 200 200 200",
    ("GET", "/recordings/checkpoints"):                                     "403 403 200 200 403 200 200 200",
    ("POST", "/recordings/checkpoints"):                                    "403 403 403 201 403 403 201 201",
    ("GET", "/recordings/export"):                                          "403 403 200 200 403 200 200 200",
    ("GET", "/recordings/key"):                                             "403 403 200 200 403 200 200 200",
    ("POST", "/recordings/key/rotate"):                                     "403 403 403 200 403 403 200 200",
    ("GET", "/reports/reviews"):                                            "403 403 200 200 403 200 200 200",
    ("GET", "/reports/activity"):                                           "403 403 200 200 403 200 200 200",
    ("POST", "/reports/rebuild"):                                           "403 403 403 202 403 403 202 202",
    ("GET", "/reports/sessions"):                                           "403 403 200 200 403 200 200 200",
    ("GET", "/resources"):                                                  "200 200 200 200 200 200 200 200",
    ("DELETE", "/resources/{nameOrID}"):                                    "403 403 403 409 403 403 409 404",
    ("GET", "/resources/{nameOrID}"):                                       "200 200 200 200 200 200 200 404",
    ("GET", "/runbooks"):                                                   "200 200 200 200 200 200 200 404",
    ("GET", "/runbooks/file"):                                              "200 200 200 200 200 200 200 404",
    ("GET", "/runbooks/configurations"):                                    "403 403 200 200 403 200 200 200",
    ("POST", "/runbooks/configurations"):                                   "403 403 403 201 403 403 201 201",
    ("PUT", "/runbooks/configurations"):                                    "403 403 403 200 403 403 200 200",
    ("GET", "/runbooks/configurations/{nameOrID}"):                         "403 403 200 200 403 200 200 404",
    ("PUT", "/runbooks/configurations/{nameOrID}"):                         "403 403 403 200 403 403 200 404",
    ("PATCH", "/runbooks/configurations/{nameOrID}"):                       "403 403 403 200 403 403 200 404",
    ("DELETE", "/runbooks/configurations/{nameOrID}"):                      "403 403 403 204 403 403 204 404",
    ("POST", "/runbooks/configurations/{nameOrID}/refresh"):                "403 403 403 200 403 403 200 404",
    ("POST", "/runbooks/configurations/{nameOrID}/files"):                  "403 403 403 201 403 403 201 404",
    ("POST", "/runbooks/exec"):                                             "202 202 403 202 202 403 202 404",
    ("POST", "/runbooks/render"):                                           "200 200 403 200 200 403 200 404",
    ("GET", "/runbooks/rules"):                                             "403 403 200 200 403 200 200 200",
    ("POST", "/runbooks/rules"):                                            "403 403 403 201 403 403 201 201",
    ("DELETE", "/runbooks/rules/{nameOrID}"):                               "403 403 403 204 403 403 204 404",
    ("GET", "/runbooks/rules/{nameOrID}"):                                  "403 403 200 200 403 200 200 404",
    ("PUT", "/runbooks/rules/{nameOrID}"):                                  "403 403 403 200 403 403 200 404",
    ("PATCH", "/runbooks/rules/{nameOrID}"):                                "403 403 403 200 403 403 200 404",
    ("GET", "/runbooks/schedule-times"):                                    "200 200 200 200 200 200 200 200",
    ("GET", "/runbooks/schedules"):                                         "200 200 200 200 200 200 200 200",
    ("POST", "/runbooks/schedules"):                                        "201 201 403 201 403 403 403 404",
    ("DELETE", "/runbooks/schedules/{nameOrID}"):                           "404 204 403 204 404 403 204 404",
    ("GET", "/runbooks/schedules/{nameOrID}"):                              "404 200 200 200 404 200 200 404",
    # An administrator may only switch off what runs as somebody else.
    ("PUT", "/runbooks/schedules/{nameOrID}"):                              "404 200 403 403 404 403 403 404",
    ("PATCH", "/runbooks/schedules/{nameOrID}"):                            "404 200 403 403 404 403 403 404",
    ("POST", "/runbooks/schedules/{nameOrID}/run"):                         "404 202 403 403 404 403 403 404",
    ("GET", "/scim/v2/Groups"):                                             "403 403 200 200 403 200 200 200",
    ("POST", "/scim/v2/Groups"):                                            "403 403 403 201 403 403 201 201",
    ("DELETE", "/scim/v2/Groups/{id}"):                                     "403 403 403 204 403 403 204 404",
    ("GET", "/scim/v2/Groups/{id}"):                                        "403 403 200 200 403 200 200 404",
    ("PATCH", "/scim/v2/Groups/{id}"):                                      "403 403 403 200 403 403 200 404",
    ("PUT", "/scim/v2/Groups/{id}"):                                        "403 403 403 200 403 403 200 404",
    ("GET", "/scim/v2/ResourceTypes"):                                      "200 200 200 200 200 200 200 200",
    ("GET", "/scim/v2/ResourceTypes/{id}"):                                 "200 200 200 200 200 200 200 200",
    ("GET", "/scim/v2/Schemas"):                                            "200 200 200 200 200 200 200 200",
    ("GET", "/scim/v2/Schemas/{id}"):                                       "200 200 200 200 200 200 200 200",
    ("GET", "/scim/v2/ServiceProviderConfig"):                              "200 200 200 200 200 200 200 200",
    ("GET", "/scim/v2/Users"):                                              "403 403 200 200 403 200 200 200",
    ("POST", "/scim/v2/Users"):                                             "403 403 403 201 403 403 201 201",
    ("DELETE", "/scim/v2/Users/{id}"):                                      "403 403 403 204 403 403 204 404",
    ("GET", "/scim/v2/Users/{id}"):                                         "403 403 200 200 403 200 200 404",
    ("PATCH", "/scim/v2/Users/{id}"):                                       "403 403 403 200 403 403 200 404",
    ("PUT", "/scim/v2/Users/{id}"):                                         "403 403 403 200 403 403 200 404",
    ("GET", "/server-logs"):                                                "403 403 403 200 403 403 200 403",
    ("GET", "/server-logs/stream"):                                         "403 403 403 200 403 403 200 403",
    ("GET", "/serverconfig/auth"):                                          "403 403 200 200 403 200 200 200",
    ("PUT", "/serverconfig/auth"):                                          "403 403 403 200 403 403 200 200",
    ("GET", "/serverconfig/misc"):                                          "403 403 403 200 403 403 200 403",
    ("PUT", "/serverconfig/misc"):                                          "403 403 403 200 403 403 200 403",
    ("POST", "/serverconfig/token-keys/rotate"):                            "403 403 403 200 403 403 200 403",
    ("GET", "/serverinfo"):                                                 "200 200 200 200 200 200 200 200",
    ("GET", "/federation-rules"):                                           "403 403 200 200 403 200 200 200",
    ("POST", "/federation-rules"):                                          "403 403 403 201 403 403 403 422",
    ("DELETE", "/federation-rules/{nameOrID}"):                             "403 403 403 204 403 403 204 404",
    ("GET", "/federation-rules/{nameOrID}"):                                "403 403 200 200 403 200 200 404",
    ("PUT", "/federation-rules/{nameOrID}"):                                "403 403 403 200 403 403 403 404",
    ("PATCH", "/federation-rules/{nameOrID}"):                              "403 403 403 200 403 403 403 404",
    ("GET", "/serviceaccounts"):                                            "403 403 200 200 403 200 200 200",
    ("POST", "/serviceaccounts"):                                           "403 403 403 201 403 403 201 201",
    ("DELETE", "/serviceaccounts/{nameOrID}"):                              "403 403 403 204 403 403 204 404",
    ("GET", "/serviceaccounts/{nameOrID}"):                                 "403 403 200 200 403 200 200 404",
    ("PUT", "/serviceaccounts/{nameOrID}"):                                 "403 403 403 200 403 403 200 404",
    ("PATCH", "/serviceaccounts/{nameOrID}"):                               "403 403 403 200 403 403 200 404",
    ("GET", "/retention"):                                                  "403 403 200 200 403 200 200 200",
    ("PUT", "/retention"):                                                  "403 403 403 200 403 403 200 200",
    ("GET", "/retention/preview"):                                          "403 403 200 200 403 200 200 200",
    ("GET", "/retention/purges"):                                           "403 403 200 200 403 200 200 200",
    ("GET", "/retention/connections"):                                      "403 403 200 200 403 200 200 200",
    ("GET", "/retention/connections/{nameOrID}"):                           "403 403 200 200 403 200 200 404",
    ("PUT", "/retention/connections/{nameOrID}"):                           "403 403 403 200 403 403 200 404",
    ("DELETE", "/retention/connections/{nameOrID}"):                        "403 403 403 200 403 403 200 404",
    ("GET", "/sessions"):                                                   "200 200 200 200 200 200 200 200",
    ("POST", "/sessions"):                                                  "202 202 403 202 202 403 202 404",
    ("GET", "/sessions/facets"):                                            "200 200 200 200 200 200 200 200",
    ("GET", "/sessions/{session_id}"):                                      "404 200 200 200 404 200 200 404",
    ("GET", "/sessions/{session_id}/exec"):                                 "404 202 202 202 404 202 202 404",
    # It waits for its review; only who asked may run it, ever.
    ("POST", "/sessions/{session_id}/exec"):                                "404 409 403 403 404 403 403 404",
    ("GET", "/sessions/{session_id}/results"):                              "404 409 409 409 404 409 409 404",
    ("GET", "/sessions/{session_id}/timeline"):                             "404 200 200 200 404 200 200 404",
    ("GET", "/sessions/{session_id}/export"):                               "404 200 200 200 404 200 200 404",
    ("GET", "/sessions/{session_id}/stream"):                               "404 200 200 200 404 200 200 404",
    ("POST", "/sessions/{session_id}/download"):                            "404 200 200 200 404 200 200 404",
    ("GET", "/sessions/{session_id}/hooks"):                                "404 403 200 200 404 200 200 404",
    ("GET", "/sessions/{session_id}/matches"):                              "404 200 200 200 404 200 200 404",
    ("GET", "/sessions/{session_id}/proof"):                                "404 200 200 200 404 200 200 404",
    # It runs: who may verify it is told so.
    ("POST", "/sessions/{session_id}/proof"):                               "404 409 409 409 404 409 409 404",
    ("GET", "/sessions/{session_id}/holds"):                                "404 403 200 200 404 200 200 404",
    ("POST", "/sessions/{session_id}/holds"):                               "404 403 403 201 404 403 201 404",
    # There is none: who may release one does not find it.
    ("DELETE", "/sessions/{session_id}/holds/{nameOrID}"):                  "404 403 403 404 404 403 404 404",
    ("POST", "/sessions/{session_id}/purge"):                               "404 403 403 409 404 403 409 404",
    ("POST", "/sessions/{session_id}/kill"):                                "404 204 403 204 404 403 204 404",
    ("GET", "/userinfo"):                                                   "200 200 200 200 200 200 200 200",
    ("GET", "/sshauthorities"):                                             "403 403 200 200 403 200 200 200",
    ("POST", "/sshauthorities"):                                            "403 403 403 201 403 403 403 201",
    ("DELETE", "/sshauthorities/{nameOrID}"):                               "403 403 403 204 403 403 204 404",
    ("GET", "/sshauthorities/{nameOrID}"):                                  "403 403 200 200 403 200 200 404",
    ("PATCH", "/sshauthorities/{nameOrID}"):                                "403 403 403 200 403 403 403 404",
    ("PUT", "/sshauthorities/{nameOrID}"):                                  "403 403 403 200 403 403 403 404",
    ("GET", "/sshkeys"):                                                    "200 200 200 200 200 200 200 200",
    ("POST", "/sshkeys"):                                                   "201 201 403 201 403 403 403 201",
    ("DELETE", "/sshkeys/{nameOrID}"):                                      "404 204 404 204 404 404 204 404",
    ("GET", "/sshkeys/{nameOrID}"):                                         "404 200 200 200 404 200 200 404",
    ("GET", "/devicelogins"):                                               "404 404 404 404 403 403 403 404",
    ("POST", "/devicelogins/confirm"):                                      "404 404 404 404 403 403 403 404",
    ("GET", "/sshlogins"):                                                  "404 404 404 404 403 403 403 404",
    ("POST", "/sshlogins/confirm"):                                         "404 404 404 404 403 403 403 404",
    ("GET", "/applogins"):                                                  "404 404 404 404 404 404 404 404",
    ("POST", "/applogins"):                                                 "404 404 404 404 403 403 403 404",
    ("GET", "/users/self/preferences"):                                     "200 200 200 200 200 200 200 200",
    ("PUT", "/users/self/preferences"):                                     "200 200 200 200 200 200 200 200",
    ("GET", "/users"):                                                      "200 200 200 200 200 200 200 200",
    ("GET", "/events/schemas"):                                             "200 200 200 200 200 200 200 200",
    ("GET", "/events/stream"):                                              "200 200 200 200 200 200 200 200",
    ("GET", "/chat/accounts"):                                              "200 200 200 200 200 200 200 200",
    # There is neither a sink for it nor an account.
    ("DELETE", "/chat/accounts/{id}"):                                      "404 404 404 404 404 404 404 404",
    ("POST", "/chat/link"):                                                 "201 201 201 201 403 403 403 201",
    ("GET", "/sinks"):                                                      "403 403 200 200 403 200 200 200",
    ("POST", "/sinks"):                                                     "403 403 403 201 403 403 201 201",
    ("DELETE", "/sinks/{nameOrID}"):                                        "403 403 403 204 403 403 204 404",
    ("GET", "/sinks/{nameOrID}"):                                           "403 403 200 200 403 200 200 404",
    ("PATCH", "/sinks/{nameOrID}"):                                         "403 403 403 200 403 403 200 404",
    ("PUT", "/sinks/{nameOrID}"):                                           "403 403 403 200 403 403 200 404",
    ("GET", "/sinks/{nameOrID}/deliveries"):                                "403 403 200 200 403 200 200 404",
    ("POST", "/sinks/{nameOrID}/redeliver"):                                "403 403 403 202 403 403 202 404",
    ("POST", "/sinks/{nameOrID}/secret"):                                   "403 403 403 200 403 403 200 404",
    ("POST", "/sinks/{nameOrID}/test"):                                     "403 403 403 202 403 403 202 404",
    ("POST", "/users"):                                                     "403 403 403 201 403 403 201 201",
    ("GET", "/users/groups"):                                               "200 200 200 200 200 200 200 200",
    ("POST", "/users/groups"):                                              "403 403 403 201 403 403 201 201",
    ("GET", "/users/groups/{nameOrID}"):                                    "200 200 200 200 200 200 200 404",
    ("DELETE", "/users/groups/{nameOrID}"):                                 "403 403 403 204 403 403 204 404",
    ("PUT", "/users/groups/{nameOrID}"):                                    "403 403 403 200 403 403 200 404",
    ("PATCH", "/users/groups/{nameOrID}"):                                  "403 403 403 200 403 403 200 404",
    ("PUT", "/users/self/password"):                                        "200 200 200 403 403 403 403 200",
    ("GET", "/users/self/second-factors"):                                  "200 200 200 200 200 200 200 200",
    ("POST", "/users/self/second-factors"):                                 "201 201 201 403 401 401 401 201",
    ("POST", "/users/self/second-factors/recovery-codes"):                  "422 422 422 403 401 401 401 422",
    ("DELETE", "/users/self/second-factors/{factor_id}"):                   "404 404 404 404 404 404 404 404",
    ("POST", "/users/self/second-factors/{factor_id}/confirm"):             "404 422 404 404 401 401 401 404",
    ("DELETE", "/users/{nameOrID}"):                                        "403 403 403 204 403 403 204 404",
    ("GET", "/users/{nameOrID}"):                                           "200 404 200 200 404 200 200 404",
    ("PUT", "/users/{nameOrID}"):                                           "403 403 403 200 403 403 200 404",
    ("PATCH", "/users/{nameOrID}"):                                         "403 403 403 200 403 403 200 404",
    ("GET", "/users/{nameOrID}/logins"):                                    "403 403 200 200 403 200 200 404",
    ("DELETE", "/users/{nameOrID}/logins"):                                 "403 403 403 200 403 403 200 404",
    ("DELETE", "/users/{nameOrID}/second-factors"):                         "403 403 403 204 403 403 403 404",
    ("GET", "/users/{nameOrID}/sshkeys"):                                   "403 403 200 200 403 200 200 404",
    ("POST", "/users/{nameOrID}/setup-link"):                               "403 403 403 201 403 403 403 404",
}
OPEN: Mapping[tuple[str, str], int] = {
    ("GET", "/callback"): 401,
    ("POST", "/chat/slack/{id}"): 401,
    ("POST", "/federation/login"): 400,
    ("GET", "/healthz"): 200,
    ("POST", "/localauth/login"): 200,
    ("POST", "/localauth/register"): 403,
    ("POST", "/localauth/second-factor"): 401,
    ("POST", "/localauth/setup"): 401,
    ("GET", "/login"): 400,
    ("GET", "/login/device"): 303,  # pages: they lead to login
    ("POST", "/login/device"): 201,
    ("POST", "/login/device/confirm"): 401,
    ("POST", "/login/device/token"): 401,
    ("POST", "/login/exchange"): 401,
    ("GET", "/login/ssh"): 303,
    ("POST", "/login/ssh/confirm"): 401,
    ("GET", "/publicserverinfo"): 200,
    ("GET", "/readyz"): 200,
    ("POST", "/saml/callback"): 400,
    ("GET", "/saml/login"): 400,
    ("GET", "/reviews/page/{id}"): 303,
    ("POST", "/reviews/page/{id}"): 401,
    ("GET", "/saml/metadata"): 200,
    ("GET", "/sessions/{session_id}/download"): 401,
    ("HEAD", "/sessions/{session_id}/download"): 401,
    ("GET", "/web/login"): 200,
    ("GET", "/web/setup"): 200,
    ("POST", "/web/login"): 403,
    ("POST", "/web/second-factor"): 403,
    ("POST", "/web/setup"): 403,
}
# fmt: on


@dataclass
class Template:
    """The store that every call begins with, and who is in it by which token."""

    file: Path
    tokens: dict[str, str]
    known: dict[str, str]


@asynccontextmanager
async def opened(file: Path) -> AsyncIterator[tuple[World, httpx.AsyncClient]]:
    """The one application, over that store: building an application takes longer than all that is asked of it."""
    database = Database(f"sqlite:///{file}")
    world = await World.make(database, MASTER)
    serve(APP, world.services(), INFO, exec_wait=0.01, target_task_wait=0.01, stream_life=0.01)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url="http://localhost/api") as client:
        yield world, client
    await database.close()


def token_of(client: httpx.AsyncClient) -> str:
    return client.headers["authorization"].removeprefix("Bearer ")


async def fill(file: Path) -> Template:
    database = Database(f"sqlite:///{file}")
    await database.migrate()
    api = await make_api(database, exec_wait=0.01, master=MASTER)
    tokens = {"anonymous": ""}
    tokens |= {"admin": token_of(api.as_admin), "auditor": token_of(api.as_auditor)}
    tokens |= {"ann": token_of(api.as_ann), "bob": token_of(api.as_bob)}
    known = await _things(api)
    await _agent_key(api, tokens)
    await _keys(api, tokens)
    await _ended(api, tokens)
    tokens["elsewhere"] = await _elsewhere(api)
    await database.close()
    return Template(file, tokens, known)


async def _things(api: Api) -> dict[str, str]:
    """Something for every path parameter; ann's where it belongs to somebody."""
    await api.make_connection()
    await api.make_guardrail()
    await api.make_masking_rule()
    credential = (await api.as_ann.post("/connections/shop/credentials")).json()
    session = (await api.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1"})).json()
    for path, body in (
        ("/serviceaccounts", {"subject": "robot", "status": "active"}),
        ("/federation-rules", {**FEDERATION_RULE, "name": "deploys"}),
        ("/machineidentities", {"name": "backup", "connection_names": ["shop"]}),
        ("/users/groups", {"name": "crew"}),
        ("/api-keys", {"name": "ci"}),
        ("/sinks", {**SINK, "name": "siem"}),
        (
            "/network-rules",
            {
                "name": "of the crew",
                "allowed_networks": ["192.0.2.0/24"],
                "groups": ["crew", "ops"],
                "connection_names": ["shop"],
            },
        ),
        ("/access-rules", {"name": "for the crew", "groups": ["crew"], "connection_names": ["shop"]}),
        ("/access-requests/rules", {**REVIEW_RULE, "name": "pairs"}),
        ("/runbooks/rules", {**RUNBOOK_RULE, "name": "deploys"}),
        ("/runbooks/configurations", {"git_url": REPOSITORY}),
        ("/sshauthorities", {"name": "people", "public_key": SSH_KEY}),
        ("/integrations/tracker/issuetemplates", {**ISSUES, "name": "changes"}),
        ("/orgs", {"name": "elsewhere", "admin_email": "chief@example.org"}),
    ):
        answer = await api.as_admin.post(path, json=body)
        assert answer.status_code == 201, answer.text
    api.world.fetcher.put(RUNBOOKS, REPOSITORY)
    assert (await api.as_ann.get("/runbooks")).json()["repositories"][0]["items"]
    planned = await api.as_ann.post("/runbooks/schedules", json={**SCHEDULE, "name": "nightly"})
    assert planned.status_code == 201, planned.text
    assert (await api.as_admin.post("/integrations/tracker", json=TRACKER)).status_code == 201
    await api.make_connection("guarded", reviewers=["dba"])
    waiting = (await api.as_ann.post("/sessions", json={"connection": "guarded", "script": "select 1"})).json()
    given_up = wanted(api.world, UUID(session["session_id"]), state=IssueState.GIVEN_UP, next_at=None)
    await api.world.stores.session_issues.add(given_up)
    enrol = {"kind": "totp", "name": "phone", "current_password": PASSWORD}
    factor = (await api.as_ann.post("/users/self/second-factors", json=enrol)).json()
    ssh_key = (await api.as_ann.post("/sshkeys", json={"name": "laptop", "public_key": SSH_KEY})).json()
    login = (await api.as_ann.get("/logins")).json()["data"][0]
    entry = (await api.as_admin.get("/audit/logs")).json()["data"][0]
    groups = {group["name"]: group["id"] for group in (await api.as_admin.get("/users/groups")).json()["data"]}
    organisations = {one["name"]: one["id"] for one in (await api.as_admin.get("/orgs")).json()["data"]}
    return {
        "agent": str(api.agent.id),
        "credential_id": credential["id"],
        "session_id": session["session_id"],
        "factor_id": factor["id"],
        "ssh_key": ssh_key["id"],
        "login_id": login["id"],
        "entry": entry["id"],
        "group": groups["crew"],
        "user": str(api.users["bob"].id),
        "review": waiting["review"]["id"],
        "reviewed_session": waiting["session_id"],
        "org_id": organisations["elsewhere"],
    }


async def _agent_key(api: Api, tokens: dict[str, str]) -> None:
    """A real one, that enrols an agent: to the API it is nobody's."""
    made = await api.as_admin.post("/agents", json={"name": "edge"})
    secret = AgentKey.read(Secret(made.json()["key"])).secret
    assert (await api.services.agents.enrol(secret, name="edge", address="::1")).name == "edge"
    tokens["agent key"] = secret.reveal()


async def _keys(api: Api, tokens: dict[str, str]) -> None:
    for name, groups in (("key", []), ("auditor key", ["auditor"]), ("admin key", ["admin"]), ("revoked key", [])):
        made = await api.as_admin.post("/api-keys", json={"name": name, "groups": groups})
        tokens[name] = made.json()["key"]
    assert (await api.as_admin.delete("/api-keys/revoked key")).status_code == 204
    robot = {"subject": "sleeper", "status": "active"}
    assert (await api.as_admin.post("/serviceaccounts", json=robot)).status_code == 201
    made = await api.as_admin.post("/api-keys", json={"name": "sleepers", "service_account": "sleeper"})
    tokens["key of an inactive one"] = made.json()["key"]
    await api.as_admin.put("/serviceaccounts/sleeper", json={"status": "inactive"})


async def _ended(api: Api, tokens: dict[str, str]) -> None:
    services, admin = api.services, api.users["admin"]
    fields = {"email": "leaver@example.com", "groups": ("admin",), "password": Secret(PASSWORD)}
    leaver = await services.users.create(admin, fields)
    login = await services.logins.open(leaver, LoginMethod.LOCAL, CLIENT)
    tokens["inactive user"] = login.token.reveal()
    await services.users.update(admin, "leaver@example.com", {"status": PrincipalStatus.INACTIVE})
    past = api.world.clock() - timedelta(seconds=1)
    live = await services.logins.open(await services.users.own(admin), LoginMethod.LOCAL, CLIENT)
    tokens["expired token"] = (await services.tokens.issue(admin.id, live.login.id, past)).reveal()


async def _elsewhere(api: Api) -> str:
    """The other organisation's administrator, who has things of the same names."""
    organisation = await api.world.stores.organisations.by_name("elsewhere")
    assert organisation is not None
    account = await api.world.stores.principals.by_email(organisation.id, "chief@example.org")
    assert account is not None
    link = await api.services.setup_links.issue_for(account)
    body = {"token": link.token.reveal(), "password": PASSWORD}
    answer = await api.nobody.post("/localauth/setup", json=body)
    assert answer.status_code == 200, answer.text
    return answer.headers["Token"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return asyncio.run(fill(tmp_path_factory.mktemp("matrix") / "postern.db"))


def filled(path: str, known: Mapping[str, str]) -> str:
    """The path with parameters that exist."""
    if path.startswith("/scim"):
        known = {**known, "id": known["group"] if "Groups" in path else known["user"]}
        if "ResourceTypes" in path or "Schemas" in path:
            known = {**known, "id": "User" if "ResourceTypes" in path else SCIM_USER}
    if path in _REVIEWED:
        known = {**known, "session_id": known["reviewed_session"]}
    names = {
        "/agents/": "edge",
        "/access-requests/rules/": "pairs",
        "/access-rules/": "for the crew",
        "/api-keys/": "ci",
        "/connections/": "shop",
        "/datamasking-rules/": "customer data",
        "/feature-flags/": "api-keys",
        "/federation-rules/": "deploys",
        "/guardrails/": "no drops",
        "/integrations/tracker/issuetemplates/": "changes",
        "/machineidentities/": "backup",
        "/network-rules/": "of the crew",
        "/resources/": "shop",
        "/retention/connections/": "shop",
        "/runbooks/configurations/": repository_name(REPOSITORY),
        "/runbooks/rules/": "deploys",
        "/runbooks/schedules/": "nightly",
        "/serviceaccounts/": "robot",
        "/sessions/": "case A",
        "/sinks/": "siem",
        "/sshauthorities/": "people",
        "/sshkeys/": known["ssh_key"],
        "/users/groups/": "crew",
        "/users/": "bob@example.com",
    }
    name = next((value for prefix, value in names.items() if path.startswith(prefix)), "")
    values = {
        "nameOrID": name,
        "name": name,
        "connection": "shop",
        "id": next((known[kind] for start, kind in _IDS.items() if path.startswith(start)), known["review"]),
        **known,
    }
    for key, value in values.items():
        path = path.replace(f"{{{key}}}", value)
    return path


async def call(template: Template, operation: tuple[str, str], caller: str, folder: Path) -> httpx.Response:
    file = folder / f"{caller}.db"
    shutil.copyfile(template.file, file)
    method, path = operation
    body = BODIES.get(operation)
    if isinstance(body, dict) and "agent_id" in body:
        body = {**body, "agent_id": template.known["agent"]}
    headers = {"Authorization": f"Bearer {template.tokens[caller]}"} if template.tokens.get(caller) else {}
    url = filled(path, template.known) + QUERIES.get(operation, "")
    async with opened(file) as (world, client):
        world.fetcher.put(RUNBOOKS, REPOSITORY)
        world.recordings.stored[UUID(template.known["session_id"])] = []
        return await client.request(method, url, json=body, headers=headers)


def operations() -> dict[tuple[str, str], bool]:
    """Every operation of the description, and whether it needs a token."""
    return {
        (method.upper(), path.removeprefix("/api")): bool(one.get("security"))
        for path, methods in APP.openapi()["paths"].items()
        for method, one in methods.items()
    }


APP = routed_once()
OPERATIONS = operations()


def test_the_table_has_a_row_for_every_operation() -> None:
    secured = {operation for operation, is_secured in OPERATIONS.items() if is_secured}
    assert set(TABLE) == secured
    assert set(OPEN) == set(OPERATIONS) - secured


@pytest.mark.parametrize("operation", TABLE, ids=" ".join)
async def test_each_caller_is_answered_as_the_table_says(
    template: Template, operation: tuple[str, str], tmp_path: Path
) -> None:
    for caller in NOBODY:
        answer = await call(template, operation, caller, tmp_path)
        assert answer.status_code == 401, (caller, answer.text)
    found = {caller: (await call(template, operation, caller, tmp_path)).status_code for caller in CALLERS}
    wanted = dict(zip(CALLERS, map(int, TABLE[operation].split()), strict=True))
    assert found == wanted


@pytest.mark.parametrize("operation", OPEN, ids=" ".join)
async def test_open_operations_give_strangers_nothing(
    template: Template, operation: tuple[str, str], tmp_path: Path
) -> None:
    answer = await call(template, operation, "anonymous", tmp_path)
    assert answer.status_code == OPEN[operation], answer.text


async def test_nothing_of_another_organisation_is_listed(template: Template, tmp_path: Path) -> None:
    """Case 49: cross-scope references. What is listed elsewhere is elsewhere's own."""
    ours = {value for name, value in template.known.items() if name != "org_id"} | {
        "shop",
        "ci",
        "backup",
        "crew",
        "for the crew",
        "robot",
        "edge",
        "siem",
    }
    ours.add("ann@example.com")
    for operation in OPERATIONS:
        method, path = operation
        if method != "GET" or "{" in path or not OPERATIONS[operation] or path.startswith("/server-logs"):
            continue
        answer = await call(template, operation, "elsewhere", tmp_path)
        assert not [one for one in ours if f'"{one}"' in answer.text], (path, answer.text)


async def test_a_role_assignment_needs_a_role(template: Template, tmp_path: Path) -> None:
    """Case 44: nobody gives themselves more by an endpoint without its own check."""
    file = tmp_path / "roles.db"
    shutil.copyfile(template.file, file)
    async with opened(file) as (_, client):
        for caller in ("ann", "auditor", "key", "auditor key"):
            headers = {"Authorization": f"Bearer {template.tokens[caller]}"}
            for method, path, body in (
                ("PUT", "/users/ann@example.com", {"groups": ["admin"]}),
                ("PUT", "/users/auditor@example.com", {"groups": ["admin"]}),
                ("POST", "/api-keys", {"name": "more", "groups": ["admin"]}),
                ("PUT", "/orgs/self", {"admin_role_name": "dba"}),
                ("PUT", "/users/groups/crew", {"name": "admins"}),
                ("POST", "/users/ann@example.com/setup-link", None),
            ):
                answer = await client.request(method, path, json=body, headers=headers)
                assert answer.status_code == 403 or (answer.status_code, caller) == (404, "key"), (caller, path)
