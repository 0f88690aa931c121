"""A smaller backbone is the same network with less precision, byte for byte the same each time."""

import collections
import logging

import numpy as np
import onnx
import pytest

from nsh.errors import ExportError
from nsh.export.graph import join_head, to_bytes
from nsh.export.quantise import shrink
from nsh.serving.session import open_session


@pytest.fixture(scope="module", params=["fp16", "int8"])
def precision(request):
    return request.param


@pytest.fixture(scope="module")
def smaller(backbone_model, photographs, precision):
    return shrink(backbone_model, precision=precision, images=photographs[:64])


def embed(model, images):
    return open_session(to_bytes(model), threads=1).run(["embedding"], {"image": images})[0]


def test_embeddings_are_near_those_of_fp32_and_not_the_same(smaller, backbone_model, photographs, precision):
    """On a CPU without VNNI, where sums of int8 saturate, the least cosine was .69 and the median .78.

    An image was nearer to its own embedding than to the others' by .036 at least.
    """
    expected, found = embed(backbone_model, photographs[64:128]), embed(smaller, photographs[64:128])
    assert (found.dtype, found.shape) == (np.float32, expected.shape)
    units = [embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True) for embeddings in (found, expected)]
    cosines = units[0] @ units[1].T
    cosine = np.diag(cosines)
    assert (cosine > (cosines.sum(1) - cosine) / (len(cosine) - 1)).all()
    assert np.median(cosine) > {"fp16": 0.999, "int8": 0.7}[precision]
    assert cosine.min() > {"fp16": 0.995, "int8": 0.6}[precision]
    assert not np.array_equal(expected, found)


def test_it_is_smaller(smaller, backbone_model, precision):
    assert smaller.ByteSize() < {"fp16": 0.55, "int8": 0.4}[precision] * backbone_model.ByteSize()


def test_the_batch_size_does_not_show(smaller, photographs):
    whole = embed(smaller, photographs[:9])
    np.testing.assert_array_equal(
        whole, np.concatenate([embed(smaller, photographs[row : row + 1]) for row in range(9)])
    )


def test_the_same_arguments_give_the_same_bytes(smaller, backbone_model, photographs, precision):
    before = to_bytes(backbone_model)
    again = shrink(backbone_model, precision=precision, images=photographs[:64])
    assert to_bytes(again) == to_bytes(smaller)
    assert to_bytes(backbone_model) == before


def test_a_head_goes_behind_it_and_the_whole_names_no_path(smaller, trained, contract):
    encoder = to_bytes(join_head(smaller, trained.head, contract))
    for word in (b"/tmp", b"site-packages", b"ort.quant"):
        assert word not in encoder


def test_the_normalisation_and_the_first_layer_of_int8_stay_float(backbone_model, photographs):
    model = shrink(backbone_model, precision="int8", images=photographs[:16])
    makers = {name: node for node in model.graph.node for name in node.output}
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    kinds = collections.Counter(makers[node.input[0]].op_type for node in convolutions)
    assert makers[convolutions[0].input[0]].op_type == "Div"
    assert kinds["DequantizeLinear"] == len(convolutions) - 1
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    assert {weights[makers[node.input[1]].input[0]].data_type for node in convolutions[1:]} == {onnx.TensorProto.INT8}


def test_calibration_is_from_the_images_given(backbone_model, photographs):
    one, other = (
        shrink(backbone_model, precision="int8", images=part) for part in (photographs[:8], photographs[8:16])
    )
    assert to_bytes(one) != to_bytes(other)


def test_the_log_level_of_the_caller_is_left_alone(backbone_model, photographs):
    level = logging.root.level
    shrink(backbone_model, precision="int8", images=photographs[:4])
    assert logging.root.level == level


def test_no_image_and_no_such_precision_are_one_sentence(backbone_model, photographs):
    with pytest.raises(ExportError, match="no image to calibrate"):
        shrink(backbone_model, precision="int8", images=photographs[:0])
    with pytest.raises(ExportError, match="found precision 'int4', allowed are fp16 and int8"):
        shrink(backbone_model, precision="int4", images=photographs)
