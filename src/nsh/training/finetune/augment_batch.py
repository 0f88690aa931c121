"""MoCo v2's augmentation of a whole batch on the batch's device; every view has its own parameters.

The operations are those of `nsh.training.augment`. Pixels differ from its pixels by a few levels: the blur is an exact
Gaussian where Pillow approximates one, and the hue is shifted without rounding the saturation to bytes. After every
operation pixels are whole numbers of 0 to 255, as Pillow's are. Weights have 16 binary places, so that all products and
sums are exact in float32, and a view does not depend on its batch or on threads. Draws no random number; knows no file.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nsh.training.augment import BLUR_SIGMA
from nsh.training.finetune.augmentations import OPERATIONS, Augmentations
from nsh.training.finetune.image_reader import send

AT_ONCE = {"cpu": 16, "cuda": 256}
"""Views made at once: as many as a processor's cache holds; more on a GPU, where each kernel takes time to start."""

_UNIT = 65_536.0  # the integer for a weight of 1; 255 times it is below 2 ** 24, where float32 is exact
_LUMA = (19_595, 38_470, 7_471)  # of red, green and blue, in `_UNIT`, as Pillow's; ITU-R BT.601
_REACH = math.ceil(5 * BLUR_SIGMA[1])  # in pixels; further away a Gaussian is less than half a unit


def augment(decoded: Tensor, drawn: Augmentations, *, size: int) -> Tensor:
    """The views, uint8 [n, size, size, 3], of decoded and squashed images, uint8 [n, side, side, 3]."""
    count = AT_ONCE[decoded.device.type]
    boxes, amounts = send(drawn.boxes, decoded.device), send(drawn.amounts, decoded.device)
    tensors = zip(*(torch.split(tensor, count) for tensor in (decoded, boxes, amounts)), strict=True)
    steps = np.split(drawn.steps, range(count, len(decoded), count))
    return torch.cat([_make(*part, steps=some, size=size) for part, some in zip(tensors, steps, strict=True)])


def _make(decoded: Tensor, boxes: Tensor, amounts: Tensor, *, steps: NDArray[np.int8], size: int) -> Tensor:
    side = decoded.shape[1]
    across = _weigh(boxes[:, 0], boxes[:, 2], side=side, size=size)
    down = _weigh(boxes[:, 1], boxes[:, 3], side=side, size=size)
    views = _mix(decoded.permute(0, 1, 3, 2).float(), across, down)
    plan = [(number, np.flatnonzero(column == number)) for column in steps.T for number in range(len(OPERATIONS))]
    together = send(np.concatenate([rows for _, rows in plan]), decoded.device)
    rows = torch.split(together, [len(rows) for _, rows in plan])
    for (number, _), chosen in zip(plan, rows, strict=True):
        if len(chosen):
            changed = _APPLY[OPERATIONS[number]](
                views.index_select(0, chosen), amounts[chosen, number].view(-1, 1, 1, 1)
            )
            views.index_copy_(0, chosen, changed)
    return views.permute(0, 1, 3, 2).to(torch.uint8, memory_format=torch.contiguous_format)


def _mix(views: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Weight columns of pixels [n, h, 3, w] by `across` [n, S, w], then rows by `down` [n, S, h], to [n, S, 3, S]."""
    count, height, _, width = views.shape
    size = across.shape[1]
    mixed = _to_bytes(torch.bmm(views.reshape(count, height * 3, width), across.mT))
    return _to_bytes(torch.bmm(down, mixed.view(count, height, 3 * size))).view(count, size, 3, size)


def _weigh(low: Tensor, high: Tensor, *, side: int, size: int) -> Tensor:
    """The weight of each pixel of a line in each pixel of a view, [n, size, side]: Pillow's bilinear filter.

    The filter is a triangle around the view's pixel; it widens as the crop shrinks, so that views are antialiased. The
    crop goes from `low` to `high` [n], shares of the line, and may be larger or smaller than the view.
    """
    places = (torch.arange(size, device=low.device) + 0.5) / size
    centres = side * (low[:, None] + places * (high - low)[:, None])
    reach = (side / size * (high - low).abs()).clamp(min=1)[:, None, None]
    pixels = torch.arange(side, device=low.device) + 0.5
    return _normalise(((1 - (pixels - centres[:, :, None]).abs() / reach).clamp(min=0) * _UNIT).round())


def _normalise(weights: Tensor) -> Tensor:
    """Divide whole numbers [n, i, j] by their sum over j, which is exact in any order of summation."""
    return (weights * _UNIT / weights.sum(dim=2, keepdim=True)).round() / _UNIT


def _to_bytes(mixed: Tensor) -> Tensor:
    """Round to the nearest whole number, halves upwards, in place."""
    return mixed.add_(0.5).floor_()


def _blur(views: Tensor, sigma: Tensor) -> Tensor:
    """Blur by a Gaussian; the border pixels are repeated outside the image."""
    size = views.shape[1]
    pixels = torch.arange(-_REACH, size + _REACH, device=views.device)
    distances = (pixels - torch.arange(size, device=views.device)[:, None]).float()
    bell = (torch.exp(-0.5 * (distances / sigma.view(-1, 1, 1)).square()) * _UNIT).round()
    weights = bell[:, :, _REACH:-_REACH].clone()
    weights[:, :, 0] += bell[:, :, :_REACH].sum(dim=2)
    weights[:, :, -1] += bell[:, :, -_REACH:].sum(dim=2)
    weights = _normalise(weights)
    return _mix(views, weights, weights)


def _weigh_colours(views: Tensor) -> Tensor:
    """Luminance [n, S, 1, S]."""
    red, green, blue = (views[:, :, [channel]] * weight for channel, weight in enumerate(_LUMA))
    return ((red + green + blue + _UNIT / 2) / _UNIT).floor_()


def _blend(start: Tensor | float, views: Tensor, amount: Tensor) -> Tensor:
    """Interpolate from `start` (amount 0) to `views` (1), or extrapolate, and clip to bytes as Pillow does."""
    return (start + amount * (views - start)).clamp_(0, 255).floor_()


def _change_contrast(views: Tensor, amount: Tensor) -> Tensor:
    luma = _weigh_colours(views)
    mean = luma.mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float64)  # exact, in any order
    return _blend((mean + 0.5).floor().float(), views, amount)


def _turn_hue(views: Tensor, amount: Tensor) -> Tensor:
    """Shift the hue; the largest and the smallest channel keep their values."""
    red, green, blue = torch.split(views, 1, dim=2)
    high, low = views.amax(dim=2, keepdim=True), views.amin(dim=2, keepdim=True)
    spread = high - low
    sector = torch.where(
        red == high, green - blue, torch.where(green == high, blue - red + 2 * spread, red - green + 4 * spread)
    )
    hue = sector / spread.clamp(min=1) + 6 * amount  # in sixths of the circle, -1.6 to 5.6
    peaks = torch.tensor([0.0, 2.0, 4.0], device=views.device).view(1, 1, 3, 1)
    return _to_bytes(low + spread * (((hue - peaks).abs() - 3).abs() - 1).clamp_(0, 1))


_APPLY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "brightness": lambda views, amount: _blend(0.0, views, amount),
    "contrast": _change_contrast,
    "saturation": lambda views, amount: _blend(_weigh_colours(views), views, amount),
    "hue": _turn_hue,
    "grey": lambda views, _: _weigh_colours(views).expand_as(views),
    "blur": _blur,
}
