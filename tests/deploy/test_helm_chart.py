"""The chart renders for several values, what it renders fulfils Kubernetes's schemas and the strictest pod security
standard, and the plain manifests are made from it."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml
from scripts import generate_manifests
from scripts.generate_manifests import CHART, MANIFESTS, VALUES, render
from starlette.routing import Route

from postern.api.routes.server.status_routes import open_router as health_routes
from postern.settings import PORTS, Settings, secret_names

Resource = dict[str, Any]
OLDEST, NEWEST = "1.25", "1.34"
# Kinds of other projects, whose schemas Kubernetes does not have.
FOREIGN = {"ServiceMonitor", "PrometheusRule", "Certificate"}

CASES: dict[str, list[str]] = {
    "defaults": [],
    "gateway and agent": ["agent.enabled=true", "agent.existingSecret=key"],
    "agent only": VALUES["agent"],
    "secrets and own certificate": [
        *VALUES["gateway"],
        *("gateway.tls.existingSecret=tls", "gateway.tls.hasCA=true", "gateway.config.oidc_issuer=https://idp.example"),
    ],
    "own certificate of applications": [
        *(*VALUES["gateway"], "gateway.tls.appsSecret=apps", "gateway.config.httpproxy_domain=apps.example.com"),
    ],
    "cert-manager": [
        *("gateway.publicHost=gateway.example.com", "gateway.tls.certManager.enabled=true"),
        *("gateway.tls.certManager.issuerRef.name=ca", "gateway.tls.certManager.issuerRef.kind=ClusterIssuer"),
    ],
    "load balancer and existing claim": [
        *("gateway.service.type=LoadBalancer", "gateway.service.externalTrafficPolicy=Local"),
        *("gateway.service.loadBalancerSourceRanges={10.0.0.0/8}", "gateway.persistence.existingClaim=data"),
        *("gateway.service.ports.postgres=5432", "gateway.podDisruptionBudget.enabled=true", "gateway.workers=4"),
    ],
    "scheduling": [
        *("gateway.nodeSelector.disk=ssd", "gateway.priorityClassName=high", "image.pullSecrets[0].name=registry"),
        *("gateway.tolerations[0].key=db", "gateway.tolerations[0].operator=Exists", "gateway.podLabels.team=dba"),
        *("gateway.podAnnotations.note=x", "gateway.env[0].name=AWS_REGION", "gateway.env[0].value=eu-central-1"),
        "image.digest=sha256:" + "0" * 64,
    ],
    "closed network and monitoring": [
        *VALUES["gateway"],
        *("networkPolicy.clients[0].ipBlock.cidr=10.0.0.0/8", "agent.enabled=true", "agent.existingSecret=key"),
        *("networkPolicy.monitoring[0].namespaceSelector.matchLabels.name=monitoring",),
        *("metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.labels.release=prometheus"),
    ],
}

needs_helm = pytest.mark.skipif(
    generate_manifests.helm() is None, reason="no helm: scripts/install-services helm builds it with Go"
)


def resources(text: str) -> list[Resource]:
    return [resource for resource in yaml.safe_load_all(text) if resource]


def pods(found: list[Resource]) -> Iterator[Resource]:
    return (each["spec"]["template"]["spec"] for each in found if each["kind"] in ("StatefulSet", "Deployment"))


def check(found: list[Resource]) -> None:
    assert found
    assert len({(each["kind"], each["metadata"]["name"]) for each in found}) == len(found)
    for resource in found:
        assert resource["metadata"]["labels"]["app.kubernetes.io/component"] in ("gateway", "agent")
        if resource["kind"] not in FOREIGN:
            for version in (OLDEST, NEWEST):
                kubernetes_validate.validate(resource, version, strict=True)
    for pod in pods(found):
        check_probes(pod)
        check_restricted(pod)
        check_mounts(pod)


def check_probes(pod: Resource) -> None:
    """Check that probes ask for what the API has, in the gateway's TLS. Any other path is a page of the web
    application, which is always there."""
    routes = {route.path for route in health_routes.routes if isinstance(route, Route)}
    for container in pod["containers"]:
        probes = [container[name]["httpGet"] for name in container if name.endswith("Probe")]
        assert len(probes) == (3 if container["name"] == "gateway" else 0)
        for probe in probes:
            assert probe["path"].removeprefix("/api") in routes
            assert probe["path"].startswith("/api/")
            assert probe["scheme"] == "HTTPS"


def check_restricted(pod: Resource) -> None:
    """Check the level "restricted" of the pod security standards, and what is stricter than it."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]
        assert not any(re.search(r"KEY$|TOKEN$|SECRET$|URL$", entry["name"]) for entry in container["env"])
    assert not {"hostPath"} & {kind for volume in pod["volumes"] for kind in volume}


def check_mounts(pod: Resource) -> None:
    """Check that each mounted volume exists, and that each file of a setting is in one."""
    claimed = {"data"}
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert set(mounts) <= volumes | claimed
        assert volumes <= set(mounts)
        for entry in container["env"]:
            value = entry.get("value", "")
            if value.startswith("/"):
                assert any(value.startswith(f"{path}/") for path in mounts.values()), entry


@needs_helm
@pytest.mark.parametrize("case", CASES)
def test_chart_renders_valid_resources(case: str) -> None:
    check(resources(render(*CASES[case])))


@needs_helm
def test_long_names_leave_room_for_what_kubernetes_appends() -> None:
    found = resources(render(f"fullnameOverride={'long-' * 12}", "agent.enabled=true", "agent.existingSecret=key"))
    check(found)
    assert max(len(each["metadata"]["name"]) for each in found) <= 52  # a StatefulSet's, plus a hash, is a label


@needs_helm
def test_chart_passes_helm_lint() -> None:
    program = generate_manifests.helm()
    assert program
    done = subprocess.run(
        [program, "lint", "--strict", "--kube-version", generate_manifests.KUBERNETES, CHART],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@needs_helm
def test_configuration_file_has_settings_with_their_types(tmp_path: Path) -> None:

    values = tmp_path / "values.yaml"
    values.write_text(
        """
gateway:
  workers: 3
  publicHost: gateway.example.com
  config: {log_level: debug, idle_timeout: 90.5, max_handshakes: 12000000, preload: false, oidc_scopes: 'say "hi"'}
"""
    )
    (config,) = [each for each in resources(render(files=(values,))) if each["kind"] == "ConfigMap"]
    read = tomllib.loads(config["data"]["postern.toml"])
    assert read == {
        "host": "0.0.0.0",
        "public_host": "gateway.example.com",
        "workers": 3,
        "log_level": "debug",
        "idle_timeout": 90.5,
        "max_handshakes": 12_000_000,
        "preload": False,
        "oidc_scopes": 'say "hi"',
        "api_port": 7480,
        "postgres_port": 7432,
        "mysql_port": 7306,
        "mssql_port": 7014,
        "oracledb_port": 7521,
        "mongodb_port": 7017,
        "dynamodb_port": 7018,
        "cloudwatch_port": 7019,
        "httpproxy_port": 7080,
        "ssh_port": 7422,
        "tcp_port": 0,
        "tunnel_port": 7443,
        "control_port": 7444,
        "log_format": "json",
    }
    assert {name: type(value) for name, value in read.items()}["workers"] is int


@needs_helm
def test_listener_for_tcp_clients_is_off_until_it_has_a_port() -> None:
    for port in (0, 7400):
        values = (f"gateway.service.ports.tcp={port}", "networkPolicy.enabled=true")
        found = resources(render("gateway.publicHost=gateway.example.com", *values))
        check(found)
        by_kind = {each["kind"]: each for each in reversed(found)}
        assert tomllib.loads(by_kind["ConfigMap"]["data"]["postern.toml"])["tcp_port"] == port
        shown = [
            [each["port"] for each in by_kind["Service"]["spec"]["ports"]],
            [each["port"] for each in by_kind["NetworkPolicy"]["spec"]["ingress"][0]["ports"]],
            [
                each["containerPort"]
                for container in by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"]
                for each in container["ports"]
            ],
        ]
        assert [7400 in ports for ports in shown] == [port == 7400] * 3


@needs_helm
def test_alert_rules_and_dashboards_are_passed_on_as_they_are(tmp_path: Path) -> None:
    """Both have braces of their own, which must not be read as Helm's."""
    rule = {"alert": "Down", "expr": 'up{job="postern"} == 0', "annotations": {"summary": "{{ $labels.instance }}"}}
    rules = {"groups": [{"name": "postern", "rules": [rule]}]}
    dashboard = {"title": "Postern", "panels": [{"legendFormat": "{{process}}"}]}
    values = tmp_path / "values.yaml"
    contents = {
        "prometheusRule": {"rules": yaml.safe_dump(rules)},
        "dashboards": {"files": {"x": json.dumps(dashboard)}},
    }
    values.write_text(yaml.safe_dump({"metrics": contents}))
    found = resources(render(files=(values,)))
    check(found)
    (made,) = [each["spec"] for each in found if each["kind"] == "PrometheusRule"]
    assert made == rules
    (config,) = [each for each in found if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert json.loads(config["data"]["x.json"]) == dashboard


@needs_helm
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["agent.enabled=true"], "a secret with the agent's key"),
        (["metrics.serviceMonitor.enabled=true"], "needs the key metrics_token"),
        (["gateway.config.host=127.0.0.1"], "host"),
        (["gateway.replicas=2"], "replicas"),
        (["gateway.config.metrics_token=x"], "metrics_token"),
        (["gateway.secrets.keys={metrics_token}"], "needs gateway.secrets.existingSecret"),
        (["image.digest=latest"], "digest"),
        (["gateway.tls.certManager.enabled=true"], "issuerRef is needed"),
    ],
)
def test_values_that_cannot_work_are_refused(values: list[str], reason: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failure:
        render(*values)
    assert reason in failure.value.stderr


@pytest.mark.parametrize("name", VALUES)
def test_plain_manifests_are_valid(name: str) -> None:
    check(resources((MANIFESTS / f"{name}.yaml").read_text()))


@pytest.mark.parametrize("name", VALUES)
def test_plain_manifests_are_made_from_this_chart(name: str) -> None:
    made_from = (MANIFESTS / f"{name}.yaml").read_text()
    assert made_from.startswith(generate_manifests.heading(name)), "run `python scripts/generate_manifests.py`"


def test_every_value_has_a_schema_and_the_defaults_fulfil_it() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema_rs.validator_for(schema).validate(values)
    assert set(paths(values, schema)) == set(properties(schema)) - {"global"}


def test_configuration_takes_every_setting_but_secrets_and_the_charts_own() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    config = jsonschema_rs.validator_for(schema["properties"]["gateway"]["properties"]["config"])
    refused = {spec.name for spec in fields(Settings) if not config.is_valid({spec.name: "x"})}
    own = {"home", "host", "demo", "public_host", "workers", "tls_cert", "tls_key", "tls_ca", "master_key", *PORTS}
    own |= {"httpproxy_tls_cert", "httpproxy_tls_key"}
    assert refused == own | secret_names()


def paths(values: Any, schema: Any, prefix: str = "") -> Iterator[str]:
    """Yield the path of each value down to what the schema leaves open."""
    for name, value in values.items():
        yield f"{prefix}{name}"
        inner = schema["properties"].get(name, {})
        if isinstance(value, dict) and "properties" in inner:
            yield from paths(value, inner, f"{prefix}{name}.")


def properties(schema: Any, prefix: str = "") -> Iterator[str]:
    for name, inner in schema["properties"].items():
        yield f"{prefix}{name}"
        if "properties" in inner:
            yield from properties(inner, f"{prefix}{name}.")
