"""What fine-tuning does on a GPU, seen without one: its operations on pretended tensors, against torch's own list."""

import re

import pytest
import torch
import torchvision
from tests.training.finetune.test_every_method import LEARNERS, build
from tests.training.finetune.tiny import DIM
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from nsh.objectives.sorting.ablations import ABLATIONS
from nsh.training.finetune.pooling import AdaptivePool, fix_pooling

REFUSED = {
    "nn.AvgPool3d": {"avg_pool3d_backward"},
    "nn.AdaptiveAvgPool2d": {"_adaptive_avg_pool2d_backward"},
    "nn.AdaptiveAvgPool3d": {"_adaptive_avg_pool3d_backward"},
    "nn.AdaptiveMaxPool2d": {"adaptive_max_pool2d_backward"},
    "nn.FractionalMaxPool2d": {"fractional_max_pool2d_backward"},
    "nn.FractionalMaxPool3d": {"fractional_max_pool3d_backward"},
    "nn.MaxUnpool1d": {"max_unpool2d"},
    "nn.MaxUnpool2d": {"max_unpool2d"},
    "nn.MaxUnpool3d": {"max_unpool3d"},
    "nn.functional.interpolate": {
        *(f"upsample_{kind}_backward" for kind in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d")),
        *(f"_upsample_{kind}2d_aa_backward" for kind in ("bilinear", "bicubic")),
    },
    "nn.ReflectionPad1d": {"reflection_pad1d_backward"},
    "nn.ReflectionPad2d": {"reflection_pad2d_backward"},
    "nn.ReflectionPad3d": {"reflection_pad3d_backward"},
    "nn.NLLLoss": {"nll_loss_forward", "nll_loss2d_forward"},
    "nn.CTCLoss": {"_ctc_loss_backward"},
    "nn.EmbeddingBag": {"_embedding_bag", "_embedding_bag_backward"},
    "Tensor.put_": {"put_", "put"},
    "histc": {"histc"},
    "bincount": {"bincount"},
    "median": {"median", "nanmedian"},
    "nn.functional.grid_sample": {"grid_sampler_2d_backward", "grid_sampler_3d_backward"},
    "Tensor.scatter_reduce": {"scatter_reduce", "scatter_reduce_"},
    "Tensor.resize_": {"resize_"},
}
"""What torch refuses on CUDA tensors when it is to be deterministic, and how its operations are called."""
BACKBONES = ["mobilenet_v2", "resnet18", "resnet50", "vgg16", "alexnet", "vit_b_16"]
"""Those that README, params.yaml and the profiles name, and AlexNet."""


class Recorder(TorchDispatchMode):
    """Names of the operations that are run."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function._schema.name.partition("::")[2])
        return function(*args, **kwargs or {})


def record_step(network):
    """Operations of a forward and a backward pass of a network without memory."""
    with Recorder() as recorder:
        network(torch.randn(2, 3, 224, 224)).square().mean().backward()
    return recorder.names


def test_the_list_is_torchs():
    section = torch.use_deterministic_algorithms.__doc__.split("operations will throw a")[1].split("In addition")[0]
    assert set(re.findall(r"\* :\w+:`torch\.([\w.]+)`", section)) == set(REFUSED)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_step_of_every_named_backbone_has_no_operation_that_cuda_refuses(name):
    refused = set().union(*REFUSED.values())
    with torch.device("meta"):
        network = torchvision.models.get_model(name, weights=None).eval()
        if name in ("vgg16", "alexnet"):
            assert record_step(network) & refused == {"_adaptive_avg_pool2d_backward"}, "else this test sees nothing"
        fix_pooling(network)
        names = record_step(network)
    assert not names & refused
    assert len(names) > 5


@pytest.mark.parametrize("sides", [(7, 7), (3, 3), (10, 6), (1, 2), (14, 21)])
def test_pooling_is_torchs_and_its_gradient_too(sides):
    images = torch.randn(2, 3, *sides, generator=torch.Generator().manual_seed(0), requires_grad=True)
    ours, theirs = AdaptivePool((7, 6)), nn.AdaptiveAvgPool2d((7, 6))
    pull = torch.randn(2, 3, 7, 6, generator=torch.Generator().manual_seed(1))
    assert torch.equal(ours(images), theirs(images))
    (found,), (expected,) = (torch.autograd.grad((pool(images) * pull).sum(), images) for pool in (ours, theirs))
    torch.testing.assert_close(found, expected)


def test_a_network_keeps_its_weights_by_name_and_its_poolings_to_one():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d((2, 2)))
    before = list(network.state_dict())
    fix_pooling(network)
    assert list(network.state_dict()) == before
    assert [type(layer) for layer in network] == [nn.Conv2d, nn.AdaptiveAvgPool2d, AdaptivePool]


class Tuning(nn.Module):
    """An objective's `tune` as a module's forward."""

    def __init__(self, objective):
        super().__init__()
        self.objective = objective

    def forward(self, rows, first, second):
        return self.objective.tune(rows, first, second)["loss"]


@pytest.mark.parametrize("name", [*LEARNERS, *(f"nsh {ablation}" for ablation in ABLATIONS)])
def test_no_objective_mixes_devices_or_waits_for_the_gpu(name, tiny):
    """A number that is read from a pretended tensor does not exist, so reading one is an error."""
    method, _, ablation = name.partition(" ")
    module = Tuning(build(method, tiny.data, **({"ablation": ablation} if ablation else {})))
    with FakeTensorMode(allow_non_fake_inputs=True):  # what an objective forgot on the CPU would be one, and a mix
        tensors = {key: torch.empty(value.shape, dtype=value.dtype, device="cuda") for key, value in named(module)}
        views = [torch.empty(6, DIM, device="cuda") for _ in range(2)]
        for _ in range(2):  # the second time a queue holds something
            loss = functional_call(module, tensors, (torch.empty(6, dtype=torch.int64, device="cuda"), *views))
            assert loss.device.type == "cuda"


def named(module):
    return [*module.named_parameters(), *module.named_buffers()]
