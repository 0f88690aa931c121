"""The gate lets the right graph through and no other."""

import copy

import numpy as np
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from nsh.errors import ExportError
from nsh.export import parity
from nsh.export.graph import join_head


def check(model, trained, images, **changes):
    networks = {"backbone": trained.backbone, "head": trained.head, **changes}
    return parity.check(model, images=images, threads=1, **networks)


def perturbed(head: nn.Module, amount: float) -> nn.Module:
    head = copy.deepcopy(head)
    with torch.no_grad():
        head.bias.add_(amount)
    return head


def test_the_right_encoder_passes_and_says_what_was_measured(encoder_model, trained, photographs):
    report = check(encoder_model, trained, photographs[:256])
    assert report["images"] == 256
    assert report["batch_sizes"] == [1, 2, 7, 64]
    assert report["bits"] == 12
    assert report["bit_agreement"] >= 0.999
    assert report["max_flipped_logit"] < 1e-3
    assert 0 < report["max_logit_difference"] < 1e-3
    assert report["opset"] == 20


def test_what_is_written_is_free_of_rounding(encoder_model, trained, photographs):
    """Of a few flipped bits among many, and of how far logits differ, another processor may say another number."""
    report = check(encoder_model, trained, photographs[:32])
    written = parity.settle(report | {"bit_agreement": 1 - 2 / 65_536, "flipped_bits": 2, "max_logit_difference": 9e-7})
    assert written == parity.settle(report | {"bit_agreement": 1.0})
    assert written["bit_agreement"] == 1.0
    assert sorted(written) == ["batch_sizes", "bit_agreement", "bits", "images", "images_wanted", "opset"]
    assert parity.settle(report | {"bit_agreement": 0.9989})["bit_agreement"] == 0.9989


def test_bits_are_neither_all_zero_nor_all_one_in_this_test(encoder_model, trained, photographs):
    logits = parity._run_torch(trained.backbone, trained.head, photographs[:256])
    assert 0.2 < (logits > 0).mean() < 0.8
    assert np.abs(logits).max() > 0.1


def test_the_same_comparison_gives_the_same_report(encoder_model, trained, photographs):
    assert check(encoder_model, trained, photographs[:32]) == check(encoder_model, trained, photographs[:32])


def test_fewer_images_than_wanted_are_said(encoder_model, trained, photographs):
    report = check(encoder_model, trained, photographs[:10])
    assert (report["images"], report["images_wanted"]) == (10, 256)


def test_another_head_is_refused(encoder_model, trained, photographs):
    with pytest.raises(ExportError, match=r"at least 99\.9% must be"):
        check(encoder_model, trained, photographs[:64], head=perturbed(trained.head, 1.0))


def test_one_flipped_bit_far_from_the_threshold_is_refused(encoder_model, trained, photographs):
    """99.9 % agree, but the bit that does not is no rounding error."""
    images = photographs[:256]
    logits = parity._run_torch(trained.backbone, trained.head, images)
    positive = [np.sort(column[column > 0])[:2] for column in logits.T]
    gaps = [float(second - first) for first, second in positive]
    bit = int(np.argmax(gaps))
    shift = float(positive[bit].mean())  # takes the smallest positive logit of this bit, alone, below zero
    head = copy.deepcopy(trained.head)
    with torch.no_grad():
        head.bias[bit] -= shift
    assert gaps[bit] / 2 > 1.5e-3
    assert ((logits[:, bit] > 0) != (logits[:, bit] > shift)).sum() == 1
    with pytest.raises(ExportError, match="a bit with logit"):
        check(encoder_model, trained, images, head=head)


def test_a_flip_beside_the_threshold_is_allowed(backbone_model, contract, trained, photographs):
    images = photographs[:256]
    logits = parity._run_torch(trained.backbone, trained.head, images)
    head = copy.deepcopy(trained.head)
    shift = float(np.sort(logits[:, 3][logits[:, 3] > 0])[0]) + 1e-4
    with torch.no_grad():
        head.bias[3] -= shift
    model_head = copy.deepcopy(head)
    with torch.no_grad():
        model_head.bias[3] += 2e-4
    # torch sees the logit at -1e-4, the graph at +1e-4
    report = check(join_head(backbone_model, model_head, contract), trained, images, head=head)
    assert report["flipped_bits"] >= 4
    assert 0 < report["max_flipped_logit"] < 1e-3


def test_a_graph_that_packs_wrongly_is_refused(encoder_model, trained, photographs):
    model = copy.deepcopy(encoder_model)
    [packing] = [node for node in model.graph.node if node.op_type == "MatMul"]
    [weight] = [one for one in model.graph.initializer if one.name in packing.input]
    reversed_bits = numpy_helper.to_array(weight)[::-1].copy()
    weight.CopyFrom(numpy_helper.from_array(reversed_bits, weight.name))
    with pytest.raises(ExportError, match="not their own logits packed"):
        check(model, trained, photographs[:16])


def test_nan_is_refused(encoder_model, trained, photographs):
    with pytest.raises(ExportError, match="torch gives NaN or infinite logits for 16 of 16"):
        check(encoder_model, trained, photographs[:16], head=perturbed(trained.head, float("nan")))


def test_no_image_proves_nothing(encoder_model, trained, photographs):
    with pytest.raises(ExportError, match="no image"):
        check(encoder_model, trained, photographs[:0])
