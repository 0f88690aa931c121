"""The device that torch works on."""

import pytest
import torch

from nsh.errors import ConfigError
from nsh.training.device import choose_device


def test_auto_takes_cuda_where_there_is_one():
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")


def test_the_cpu_is_always_there():
    assert choose_device("cpu") == "cpu"


def test_a_device_that_is_not_there_is_refused_with_what_there_is():
    with pytest.raises(ConfigError, match=r"found cuda:99, torch sees \d+ CUDA devices: choose auto or cpu"):
        choose_device("cuda:99")
