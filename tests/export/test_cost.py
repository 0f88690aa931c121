"""The cost of less precision is counted bit by bit, and judged against limits."""

import copy

import numpy as np
import pytest
import torch

from nsh.core.codes import unpack
from nsh.core.metrics import evaluate
from nsh.errors import ExportError
from nsh.export.cost import CostLimits, Sample, find_similar, judge, measure_speed
from nsh.export.graph import join_head, to_bytes
from nsh.serving.session import open_session

STRICT, LOOSE = CostLimits(0.0, 0.0), CostLimits(1.0, 1.0)


@pytest.fixture(scope="module")
def samples(photographs):
    labels = np.zeros((300, 2), dtype=np.bool_)
    labels[np.arange(300), np.arange(300) % 2] = True  # of which of the two photographs a crop is
    return {
        "gallery": Sample(photographs[:80], labels[:80]),
        "query": Sample(photographs[80:120], labels[80:120]),
    }


@pytest.fixture(scope="module")
def changed(backbone_model, trained, contract):
    """An encoder of which the first bit is turned around."""
    head = copy.deepcopy(trained.head)
    with torch.no_grad():
        head.weight[0] *= -1
        head.bias[0] *= -1
    return join_head(backbone_model, head, contract)


def test_an_encoder_costs_nothing_against_itself(encoder_model, samples):
    found = judge(encoder_model, encoder_model, **samples, limits=STRICT, threads=1)
    assert (found["images"], found["bit_flips"], found["mAP_drop"], found["past_limits"]) == (120, 0, 0, [])


def test_flips_are_counted_over_all_bits_of_all_images(encoder_model, changed, samples):
    found = judge(encoder_model, changed, **samples, limits=LOOSE, threads=1)
    assert found["bit_flips"] == pytest.approx(1 / 12, abs=1e-6)  # one of twelve, padding not counted
    assert found["past_limits"] == []


def test_the_drop_is_that_of_two_evaluations(encoder_model, backbone_model, trained, contract, samples):
    head = copy.deepcopy(trained.head)
    with torch.no_grad():
        head.weight[1:] = 0
        head.bias[1:] = -1
    poor = join_head(backbone_model, head, contract)
    images = np.concatenate([samples["gallery"].images, samples["query"].images])
    values = []
    for model in (encoder_model, poor):
        [codes] = open_session(to_bytes(model), threads=1).run(["code"], {"image": images})
        labels = samples["query"].labels, samples["gallery"].labels
        values.append(evaluate(codes[80:], codes[:80], *labels, bits=12, k=80).metrics["mAP_at_80"])
    found = judge(encoder_model, poor, **samples, limits=CostLimits(0.0, 1.0), threads=1)
    assert found["mAP_of_fp32"] == pytest.approx(values[0], abs=1e-6)
    assert found["mAP_drop"] == pytest.approx(values[0] - values[1], abs=1e-6)
    assert found["mAP_drop"] > 0.01
    [sentence] = found["past_limits"]
    assert "below fp32's, 0.0000 is allowed" in sentence


def test_unusually_many_flips_are_warned_of(encoder_model, changed, samples):
    [sentence] = judge(encoder_model, changed, **samples, limits=CostLimits(1.0, 0.05), threads=1)["warnings"]
    assert sentence == "8.33% of the bits are not fp32's, usual are 5.00%"


def test_without_labels_the_similar_images_are_the_float_embeddings_neighbours(encoder_model, changed, samples):
    plain = {part: Sample(sample.images, None) for part, sample in samples.items()}
    found = judge(encoder_model, changed, **plain, limits=STRICT, threads=1)
    images = np.concatenate([samples["gallery"].images, samples["query"].images])
    [embeddings] = open_session(to_bytes(encoder_model), threads=1).run(["embedding"], {"image": images})
    labels = find_similar(embeddings[80:], embeddings[:80])
    values = []
    for model in (encoder_model, changed):
        [codes] = open_session(to_bytes(model), threads=1).run(["code"], {"image": images})
        values.append(evaluate(codes[80:], codes[:80], *labels, bits=12, k=80).metrics["mAP_at_80"])
    assert found["relevance"] == "neighbours"
    assert found["mAP_drop"] == pytest.approx(values[0] - values[1], abs=1e-6)
    assert len(found["past_limits"]) == (values[0] > values[1])


def test_similar_images_are_the_nearest_by_cosine():
    generator = np.random.default_rng(0)
    query, gallery = (generator.standard_normal((count, 5)).astype(np.float32) for count in (3, 250))
    own, labels = find_similar(query, gallery)
    assert np.array_equal(own, np.eye(3, dtype=bool))
    for row, embedding in enumerate(query):
        cosines = [float(other @ embedding / np.linalg.norm(other) / np.linalg.norm(embedding)) for other in gallery]
        nearest = sorted(range(250), key=lambda place: -cosines[place])[:2]  # 1 % of 250 is 2.5, rounded to even
        assert sorted(np.flatnonzero(labels[:, row])) == sorted(nearest)


def test_overflow_is_refused(encoder_model, backbone_model, trained, contract, samples):
    head = copy.deepcopy(trained.head)
    with torch.no_grad():
        head.bias.fill_(float("inf"))
    with pytest.raises(ExportError, match="NaN or infinite"):
        judge(encoder_model, join_head(backbone_model, head, contract), **samples, limits=LOOSE, threads=1)


def test_speed_is_a_ratio_for_each_batch_size(encoder_model, photographs):
    found = measure_speed(encoder_model, encoder_model, images=photographs[:8], threads=1)
    assert found.keys() == {"speed_at_batch_1", "speed_at_batch_32", "threads", "load"}
    assert found["speed_at_batch_1"] > 0


def test_the_codes_compared_are_those_of_the_graphs(encoder_model, changed, photographs):
    """The oracle of the flips: only bit 0 differs, in every image."""
    one, other = (
        open_session(to_bytes(model), threads=1).run(["code"], {"image": photographs[:20]})[0]
        for model in (encoder_model, changed)
    )
    different = unpack(one, bits=12) != unpack(other, bits=12)
    assert different[:, 0].all()
    assert not different[:, 1:].any()
