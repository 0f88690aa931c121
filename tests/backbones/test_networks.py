import numpy as np
import pytest
import torch
import torchvision
from torch import nn

from nsh.backbones import classifiers, networks
from nsh.backbones.pixels import ImageToEmbedding
from nsh.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def classifier() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return torchvision.models.mobilenet_v2(weights=None).eval()


def images(size: int, count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


def saved(state: dict, path):
    torch.save(state, path)
    return path


@pytest.mark.parametrize(
    ("name", "size", "dim"),
    [
        ("mobilenet_v2", 96, 1280),
        ("resnet18", 64, 512),
        ("resnet50", 64, 2048),
        ("vgg16", 64, 4096),
        ("efficientnet_b0", 64, 1280),
        ("vit_b_16", 64, 768),
        ("squeezenet1_1", 64, 512),  # its last layer is a convolution
        ("tf_efficientnet_lite2", 64, 1280),  # timm's, as the next two
        ("vit_tiny_patch16_224", 64, 192),
        ("mobilenetv3_small_050", 64, 1024),  # its embedding is longer than its features
        ("googlenet", 64, 1024),  # has auxiliary classifiers before the last layer
    ],
)
def test_embeddings_have_the_promised_length(name, size, dim):
    backbone = networks.build(name, weights=None, image_size=size)
    with torch.inference_mode():
        embedding = backbone(images(size))
    assert backbone.dim == dim
    assert embedding.shape == (2, dim)
    assert torch.isfinite(embedding).all()
    assert 1e-3 < (embedding[0] - embedding[1]).abs().max() < 1e3  # told apart, also in float16


def test_the_cut_is_what_the_classifier_read(classifier, tmp_path):
    backbone = networks.build("mobilenet_v2", weights=saved(classifier.state_dict(), tmp_path / "w.pt"), image_size=64)
    with torch.inference_mode():
        expected = classifier(images(64))
        assert torch.equal(classifier.classifier[1](backbone(images(64))), expected)


def test_vgg16_gives_fc7_as_in_evaluation():
    backbone = networks.build("vgg16", weights=None, image_size=64)
    network = backbone.network
    with torch.inference_mode():
        pooled = network.avgpool(network.features(images(64))).flatten(1)
        fc6 = network.classifier[0](pooled).relu()
        assert torch.equal(backbone(images(64)), network.classifier[3](fc6).relu())


class TestFrozen:
    def test_no_parameter_learns(self):
        assert not any(p.requires_grad for p in networks.build("resnet18", weights=None, image_size=64).parameters())

    def test_a_parent_in_training_does_not_move_it(self):
        backbone = networks.build("resnet18", weights=None, image_size=64)
        before = {key: value.clone() for key, value in backbone.state_dict().items()}
        nn.Sequential(backbone).train()(images(64, count=4))
        assert not any(module.training for module in backbone.modules())
        assert all(torch.equal(before[key], value) for key, value in backbone.state_dict().items())


class TestRandomWeights:
    def test_they_are_the_same_each_time_with_any_threads_and_leave_the_generator_alone(self):
        torch.manual_seed(1)
        state = torch.get_rng_state()
        first = networks.build("mobilenet_v2", weights=None, image_size=64)
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(2)
        torch.set_num_threads(2)
        second = networks.build("mobilenet_v2", weights=None, image_size=64)
        assert torch.get_num_threads() == 2
        pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


class TestWeights:
    def test_the_features_alone_are_enough_for_mobilenet(self, classifier, tmp_path):
        whole = saved(classifier.state_dict(), tmp_path / "whole.pt")
        features = saved(classifier.features.state_dict(), tmp_path / "features.pt")
        built = [networks.build("mobilenet_v2", weights=path, image_size=64) for path in (whole, features)]
        assert len(classifier.features.state_dict()) == 312
        with torch.inference_mode():
            assert torch.equal(built[0](images(64)), built[1](images(64)))

    def test_the_features_alone_are_too_little_for_alexnet(self, tmp_path):
        with torch.random.fork_rng(devices=[]):
            features = torchvision.models.alexnet(weights=None).features
        path = saved(features.state_dict(), tmp_path / "w.pt")
        with pytest.raises(DataError, match=r"missing classifier.1.bias, classifier.1.weight"):
            networks.build("alexnet", weights=path, image_size=64)

    def test_batch_counters_may_be_absent(self, classifier, tmp_path):
        state = {key: value for key, value in classifier.state_dict().items() if "num_batches" not in key}
        networks.build("mobilenet_v2", weights=saved(state, tmp_path / "w.pt"), image_size=64)

    def test_what_misses_is_named(self, classifier, tmp_path):
        state = classifier.state_dict()
        state["surplus"] = state.pop("features.0.0.weight")
        state["features.0.1.weight"] = torch.zeros(3)
        with pytest.raises(
            DataError,
            match=r"missing features.0.0.weight; unknown surplus; of another shape features.0.1.weight",
        ):
            networks.build("mobilenet_v2", weights=saved(state, tmp_path / "w.pt"), image_size=64)

    def test_of_many_the_first_are_named_and_the_rest_counted(self, classifier, tmp_path):
        with pytest.raises(DataError, match=r"missing bn1.bias, .* and \d+ more; unknown classifier"):
            networks.build("resnet18", weights=saved(classifier.state_dict(), tmp_path / "w.pt"), image_size=64)

    @pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02."])
    def test_a_file_that_is_no_state_dict(self, tmp_path, content):
        path = tmp_path / "w.pt"
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"w\.pt is no file of weights that loads without running code"):
            networks.build("resnet18", weights=path, image_size=64)

    def test_a_pickled_network_is_not_run(self, tmp_path, classifier):
        with pytest.raises(DataError, match="without running code"):
            networks.build("mobilenet_v2", weights=saved(classifier, tmp_path / "w.pt"), image_size=64)

    def test_a_checkpoint_is_no_state_dict(self, tmp_path, classifier):
        path = saved({"state_dict": classifier.state_dict(), "epoch": 3}, tmp_path / "w.pt")
        with pytest.raises(DataError, match="holds no state_dict"):
            networks.build("mobilenet_v2", weights=path, image_size=64)

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(DataError, match="are not here: run the download stage"):
            networks.build("resnet18", weights=tmp_path / "none.pt", image_size=64)


class TestArguments:
    def test_a_mistyped_name_is_met_with_close_ones(self):
        with pytest.raises(ConfigError, match=r"found 'mobilnet_v2'.*did you mean mobilenet_v2,"):
            networks.build("mobilnet_v2", weights=None, image_size=64)

    def test_a_name_like_no_other_is_met_with_examples(self):
        with pytest.raises(ConfigError, match="did you mean mobilenet_v2, tf_efficientnet_lite2, resnet50, vit_b_16"):
            networks.build("§§§", weights=None, image_size=64)

    @pytest.mark.parametrize(("name", "size"), [("vit_b_16", 100), ("maxvit_t", 96), ("inception_v3", 40)])
    def test_a_size_the_network_does_not_take(self, name, size):
        with pytest.raises(ConfigError, match=f"{name} takes no images of {size} x {size} pixels"):
            networks.build(name, weights=None, image_size=size)


def test_the_normalisation_is_the_one_of_torchvisions_weights():
    preset = torchvision.models.MobileNet_V2_Weights.IMAGENET1K_V1.transforms()
    assert np.allclose(classifiers.MEAN, preset.mean)
    assert np.allclose(classifiers.STD, preset.std)


def test_lite_has_its_own_normalisation_which_the_exported_pixels_have(tmp_path):
    backbone = networks.build("tf_efficientnet_lite2", weights=None, image_size=32)
    seen = []
    backbone.network.register_forward_pre_hook(lambda network, images: seen.append(images[0]))
    pixels = torch.arange(256, dtype=torch.uint8).repeat(12).reshape(1, 32, 32, 3)
    ImageToEmbedding(backbone)(pixels)
    assert torch.allclose(seen[0], (pixels.permute(0, 3, 1, 2).double().float() - 127) / 128, atol=1e-6)


@pytest.mark.parametrize("name", ["vit_base_patch16_siglip_224", "convnext_tiny.dinov3_lvd1689m"])
def test_a_network_of_timm_has_the_normalisation_that_timm_publishes(name):
    import timm

    published = timm.get_pretrained_cfg(name)
    assert classifiers.normalisation(name) == (tuple(published.mean), tuple(published.std))
