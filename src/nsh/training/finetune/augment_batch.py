"""MoCo v2's augmentation of a whole batch, every view in its own way, where the batch lies.

The same operations as in `nsh.training.augment`, whose pixels they meet to a few levels (the blur is a true Gaussian
there approximated, the hue is turned without rounding saturation to bytes). Pixels are whole numbers of 0 to 255 after
every operation, as Pillow's are, and weights have 16 binary places, so that products and sums of both are exact in
float32: a view does not depend on the batch that it is made in, nor on threads. It draws nothing, and knows no file.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nsh.training.augment import BLUR_SIGMA
from nsh.training.finetune.draws import OPERATIONS, Draws
from nsh.training.finetune.source import send

AT_ONCE = {"cpu": 16, "cuda": 256}
"""Views made at once: as many as a processor's cache holds; on a GPU, whose kernels take time to start, more."""

_UNIT = 65_536.0  # what a weight of 1 counts: 255 times as much is below 2 ** 24, the last whole number of float32
_LUMA = (19_595, 38_470, 7_471)  # of red, green and blue, in `_UNIT`, as Pillow's; ITU-R BT.601
_REACH = math.ceil(5 * BLUR_SIGMA[1])  # pixels, beyond which a Gaussian is less than half a unit


def augment(squares: Tensor, drawn: Draws, *, size: int) -> Tensor:
    """The views that were drawn, uint8 [n, size, size, 3], of squashed images, uint8 [n, side, side, 3]."""
    count = AT_ONCE[squares.device.type]
    boxes, amounts = send(drawn.boxes, squares.device), send(drawn.amounts, squares.device)
    tensors = zip(*(torch.split(tensor, count) for tensor in (squares, boxes, amounts)), strict=True)
    steps = np.split(drawn.steps, range(count, len(squares), count))
    return torch.cat([_make(*part, steps=some, size=size) for part, some in zip(tensors, steps, strict=True)])


def _make(squares: Tensor, boxes: Tensor, amounts: Tensor, *, steps: NDArray[np.int8], size: int) -> Tensor:
    side = squares.shape[1]
    across = _weigh(boxes[:, 0], boxes[:, 2], side=side, size=size)
    down = _weigh(boxes[:, 1], boxes[:, 3], side=side, size=size)
    views = _mix(squares.permute(0, 1, 3, 2).float(), across, down)
    plan = [(number, np.flatnonzero(column == number)) for column in steps.T for number in range(len(OPERATIONS))]
    together = send(np.concatenate([rows for _, rows in plan]), squares.device)
    rows = torch.split(together, [len(rows) for _, rows in plan])
    for (number, _), chosen in zip(plan, rows, strict=True):
        if len(chosen):
            changed = _APPLY[OPERATIONS[number]](
                views.index_select(0, chosen), amounts[chosen, number].view(-1, 1, 1, 1)
            )
            views.index_copy_(0, chosen, changed)
    return views.permute(0, 1, 3, 2).to(torch.uint8, memory_format=torch.contiguous_format)


def _mix(views: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Weigh columns of pixels [n, h, 3, w] by `across` [n, S, w], then rows by `down` [n, S, h], to [n, S, 3, S]."""
    count, height, _, width = views.shape
    size = across.shape[1]
    mixed = _to_bytes(torch.bmm(views.reshape(count, height * 3, width), across.mT))
    return _to_bytes(torch.bmm(down, mixed.view(count, height, 3 * size))).view(count, size, 3, size)


def _weigh(low: Tensor, high: Tensor, *, side: int, size: int) -> Tensor:
    """How much each pixel of a line counts in each pixel of a view, [n, size, side]: Pillow's bilinear filter.

    A triangle around the place of the view's pixel, as wide as it is where the crop shrinks: antialiased. The crop goes
    from `low` to `high` [n], shares of the line, and may be larger or smaller than the view.
    """
    places = (torch.arange(size, device=low.device) + 0.5) / size
    centres = side * (low[:, None] + places * (high - low)[:, None])
    reach = (side / size * (high - low).abs()).clamp(min=1)[:, None, None]
    pixels = torch.arange(side, device=low.device) + 0.5
    return _normalise(((1 - (pixels - centres[:, :, None]).abs() / reach).clamp(min=0) * _UNIT).round())


def _normalise(weights: Tensor) -> Tensor:
    """Whole numbers [n, i, j] to parts of the sum over j, which in whole numbers is the same in any order."""
    return (weights * _UNIT / weights.sum(dim=2, keepdim=True)).round() / _UNIT


def _to_bytes(mixed: Tensor) -> Tensor:
    """To the nearest whole number, halves upwards, in place."""
    return mixed.add_(0.5).floor_()


def _blur(views: Tensor, sigma: Tensor) -> Tensor:
    """A Gaussian; beyond the border the outermost pixels go on."""
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
    """From `start` (amount 0) to `views` (1) and beyond, cut to bytes as Pillow does."""
    return (start + amount * (views - start)).clamp_(0, 255).floor_()


def _change_contrast(views: Tensor, amount: Tensor) -> Tensor:
    luma = _weigh_colours(views)
    mean = luma.mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float64)  # exact, in any order
    return _blend((mean + 0.5).floor().float(), views, amount)


def _turn_hue(views: Tensor, amount: Tensor) -> Tensor:
    """Turn colours around the circle of hues, largest and smallest channel staying what they are."""
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
