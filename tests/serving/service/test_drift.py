"""The service compares its queries with the encoder's reference profile, window by window."""

import io
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from tests.commands import run_nsh
from tests.references import add_profile

from nsh.core.reference import MIN_IMAGES, profile
from nsh.serving.service import drift
from nsh.serving.service.drift import WINDOW, DriftMonitor
from nsh.serving.service.metrics import Metrics


@pytest.fixture
def model(encoder, encoder_path, photographs, tmp_path):
    """The tests' encoder with a reference profile of photographs."""
    codes = encoder.encode(photographs[:160])
    path = tmp_path / "encoder.onnx"
    path.write_bytes(add_profile(encoder_path.read_bytes(), codes[:100], codes[100:], bits=encoder.contract.bits))
    return path


def read(text):
    """The metrics of drift without labels."""
    found = re.findall(r"^nsh_drift_(\w+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def as_png(pixels):
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def test_dark_queries_raise_the_alarm_and_monitor_reports_them(serve, model, photographs, monkeypatch, tmp_path):
    monkeypatch.setattr(drift, "WINDOW", MIN_IMAGES)  # 50 searches are enough to see it
    with serve(model=model) as client:
        address = f"http://127.0.0.1:{client.port}"
        early = run_nsh("monitor", address, "--model", model)
        assert early.returncode == 2
        assert "has 0 queries in its first window" in early.stderr
        for pixels in photographs[200 : 200 + MIN_IMAGES] // 4:
            assert client.post_image("/v1/search", as_png(pixels)).status == 200
        client.post_json("/v1/search", {"id": "left/00.png"})  # no new image
        metrics = read(client.get("/metrics").body.decode())
        assert (metrics["alarm"], metrics["alarms_total"], metrics["windows_total"]) == (1, 1, 1)
        assert (metrics["images"], metrics["waiting_images"], metrics["reference_images"]) == (MIN_IMAGES, 0, 100)
        result = run_nsh("monitor", address, "--model", model, "--report", tmp_path / "page.html")
        assert result.returncode == 1
        assert f"p = {metrics['p_value']:.2g};" in result.stdout
        assert (tmp_path / "page.html").read_text().count("<svg") == 2


def test_an_encoder_without_a_profile_is_served_and_metrics_say_so(client, encoder_path, picture):
    assert client.post_image("/v1/search", picture).status == 200
    assert read(client.get("/metrics").body.decode())["reference_images"] == 0
    result = run_nsh("monitor", f"http://127.0.0.1:{client.port}", "--model", encoder_path)
    assert result.returncode == 2
    assert "monitoring is not available" in result.stderr


def test_a_service_of_the_same_encoder_without_a_profile_is_one_sentence(client, model, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # which is not asked for this machine
    result = run_nsh("monitor", f"http://127.0.0.1:{client.port}", "--model", model)
    assert result.returncode == 2
    assert "serves a copy of this encoder without a reference profile" in result.stderr


def draw_codes(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 2), np.uint8)


def test_threads_lose_no_query_and_memory_is_one_window():
    reference = profile(draw_codes(200, 0), draw_codes(20, 1), bits=16)
    metrics = Metrics()
    monitor = DriftMonitor(reference, metrics)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(monitor.observe, draw_codes(WINDOW * 3 + 7, 2)))
    found = read(metrics.text().decode())
    assert (found["windows_total"], found["waiting_images"], found["images"]) == (3, 7, WINDOW)
    assert found["alarms_total"] == found["alarm"] == 0
