"""The dashboard and the alarms in monitoring/ ask for what a real service has, in the language of Prometheus."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from nsh.serving.service.settings import Shadow

MONITORING = Path(__file__).parents[3] / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
SAMPLES = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
"""What a metric's name ends with in a query, by the type that /metrics states."""


def rules():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard():
    return json.loads((MONITORING / "grafana/dashboard.json").read_text())


def queries():
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def metrics_in(expressions):
    return {name for expression in expressions for name in re.findall(r"\b(?:nsh|process)_\w+", expression)}


@pytest.fixture
def exported(serve, encoder_path, index_path, picture):
    """/metrics after a search and what is no image; a shadow adds its own, here the same release again."""
    with serve(shadow=Shadow(model=encoder_path, index=index_path, share=1.0)) as client:
        assert client.post_image("/v1/search", picture).status == 200
        client.post_image("/v1/search", b"no image")
        yield client.get("/metrics").body.decode()


def test_dashboard_and_alarms_name_metrics_that_the_service_has(exported):
    types = re.findall(r"^# TYPE (\w+) (\w+)$", exported, flags=re.MULTILINE)
    samples = {name + end for name, kind in types for end in SAMPLES[kind]}
    asked = metrics_in([rule["expr"] for rule in rules()]), metrics_in(queries())
    assert all(len(names) > 4 for names in asked)
    assert set.union(*asked) - samples == set()


def test_alarms_ask_for_labels_that_the_service_gives(exported):
    for rule in rules():
        for label, value in re.findall(r'\b(route|outcome)="([^"]+)"', rule["expr"]):
            assert f'{label}="{value}"' in exported, rule["alert"]


def test_an_alarm_says_what_is_wrong_and_what_to_do():
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert "$labels.instance" in rule["annotations"]["summary"]
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_every_panel_can_be_drawn():
    panels = dashboard()["panels"]
    variables = {variable["name"] for variable in dashboard()["templating"]["list"]} | {"__rate_interval"}
    assert {name for query in queries() for name in re.findall(r"\$(\w+)", query)} <= variables
    assert len({panel["id"] for panel in panels}) == len({str(panel["gridPos"]) for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["targets"] for panel in panels)


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool: apt-get install prometheus")
def test_prometheus_reads_alarms_and_queries(tmp_path):
    read_by_promtool = tmp_path / "queries.yaml"
    recorded = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries())
    ]
    read_by_promtool.write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}))
    subprocess.run(["promtool", "check", "rules", str(ALERTS), str(read_by_promtool)], check=True)
