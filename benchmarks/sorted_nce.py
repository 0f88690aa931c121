"""SortedNCE with and without the gathered tensor E: time and memory of forward and backward, one thread.

    python benchmarks/sorted_nce.py

Three forms of the same loss: E built as Eq. 5 is written; E-free with a row of P for every rank; E-free with a row for
every distinct distance, which is what `nsh.objectives.sorting.sorted_nce` does. Times are medians of interleaved
rounds, in CPU time, which one thread on a busy machine does not stretch. Memory is the peak of a process of its own,
above what it held before the loss was computed (read from /proc: Linux only).
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from nsh.objectives.heads.binary import straight_through
from nsh.objectives.sorting.softsort import affinity, permutation
from nsh.objectives.sorting.sorted_nce import SMALLEST_LENGTH, sorted_cosines, sorted_nce

BATCHES = (50, 128, 256)
BITS, D_Z, TAU_S, TAU_C, POSITIVES = 32, 1024, 0.1, 0.1, 2
ROUNDS = 5


def explicit(scores: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Cosines [n, n] through E [n, n, d_z]."""
    gathered = torch.einsum("ijk,kd->ijd", permutation(scores, TAU_S), first)
    return torch.einsum("ijd,id->ij", functional.normalize(gathered, dim=2), second)


def every_rank(scores: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Cosines [n, n] through Gram matrices, tied ranks computed again and again."""
    shares = permutation(scores, TAU_S)
    with_anchor = (shares @ (second @ first.T).unsqueeze(2)).squeeze(2)
    squared_length = ((shares @ (first @ first.T)) * shares).sum(dim=2)
    return with_anchor * squared_length.clamp_min(SMALLEST_LENGTH**2).rsqrt()


def every_level(scores: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Cosines [n, n] as the library computes them."""
    return sorted_cosines(scores, first, second, tau_s=TAU_S)


FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "explicit E": explicit,
    "E-free, rank": every_rank,
    "E-free, level": every_level,
}


def draw_batch(images: int) -> list[Tensor]:
    """Hidden codes and unit latents of two views of images from ten classes."""
    generator = torch.Generator().manual_seed(0)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    hidden = gaussian(10, BITS)[torch.arange(images) % 10] + gaussian(images, BITS)
    latent = gaussian(images, D_Z)
    hiddens = [(hidden + 0.3 * gaussian(images, BITS)).tanh() for _ in range(2)]
    latents = [functional.normalize(latent + gaussian(images, D_Z), dim=1) for _ in range(2)]
    return [tensor.requires_grad_() for tensor in (*hiddens, *latents)]


def run_once(form: str, batch: list[Tensor]) -> float:
    """The loss, after its gradients."""
    hidden_first, hidden_second, first, second = batch
    scores = affinity(straight_through(hidden_first), straight_through(hidden_second))
    loss = sorted_nce(FORMS[form](scores, first, second), m=POSITIVES, tau_c=TAU_C)
    torch.autograd.grad(loss, batch)
    return loss.item()


def measure_times(images: int) -> dict[str, float]:
    """Median milliseconds of each form."""
    batch = draw_batch(images)
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    losses = {form: run_once(form, batch) for form in FORMS}
    if max(losses.values()) - min(losses.values()) > 1e-5:
        raise AssertionError(f"the forms disagree: {losses}")
    for _ in range(ROUNDS):
        for form in FORMS:
            start = time.process_time()
            run_once(form, batch)
            times[form].append((time.process_time() - start) * 1e3)
    return {form: statistics.median(values) for form, values in times.items()}


def measure_memory(form: str, images: int) -> float:
    """Peak mebibytes of one run in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", form, "--images", str(images)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_own_memory(form: str, images: int) -> None:
    """The child's part of `measure_memory`; a small batch first, so that no library is loaded in between."""
    run_once(form, draw_batch(8))
    batch = draw_batch(images)
    before = read_status("VmRSS")
    run_once(form, batch)
    print((read_status("VmHWM") - before) / 1024)


def read_status(field: str) -> int:
    """A size of this process in KiB; the peak that `getrusage` gives would be the parent's where that is larger."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description="Time and peak memory of three forms of SortedNCE.")
    parser.add_argument("--memory-of", choices=list(FORMS), help="measure this form's memory here (used by itself)")
    parser.add_argument("--images", type=int, default=50, help="with --memory-of: images a batch")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.memory_of:
        print_own_memory(arguments.memory_of, arguments.images)
        return
    print(f"forward and backward, {BITS} bits, d_z {D_Z}, one thread; ratios to the last form")
    print(f"{'n':>4}  {'form':<14}{'ms':>10}{'ratio':>8}{'MiB':>10}{'ratio':>8}")
    for images in BATCHES:
        times = measure_times(images)
        memory = {form: measure_memory(form, images) for form in FORMS}
        least_time, least_memory = times["E-free, level"], max(memory["E-free, level"], 0.1)
        for form in FORMS:
            ratios = times[form] / least_time, memory[form] / least_memory
            print(f"{images:>4}  {form:<14}{times[form]:>10.1f}{ratios[0]:>8.1f}{memory[form]:>10.1f}{ratios[1]:>8.1f}")


if __name__ == "__main__":
    main()
