"""ITQ: principal directions, and the rotation that makes them nearest to bits.

Gong et al., "Iterative Quantization", TPAMI 2013. Knows matrices. `nsh.methods.itq` is the method; `nsh.methods.nsh`
starts from it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from nsh.errors import TrainingError
from nsh.objectives.heads.binary import sign


def learn_projection(
    centred: Tensor, *, bits: int, iterations: int, seed: int, report: Callable[[dict[str, float]], None]
) -> Tensor:
    """W R: the first `bits` principal directions of centred features, rotated by ITQ.

    Args:
        centred: float64 [n, dim], columns of zero mean.
        bits: length of the code, at most dim.
        iterations: of the two-step minimisation (section 3.2 of the paper).
        seed: of the initial random rotation.
        report: gets the quantisation error of every iteration.

    Returns:
        float64 [dim, bits] with orthonormal columns.

    Raises:
        TrainingError: bits > dim.
    """
    dim = centred.shape[1]
    if bits > dim:
        raise TrainingError(
            f"ITQ finds at most as many bits as there are features: {bits} bits asked for, {dim} features found; "
            f"choose bits <= {dim} or a backbone with longer embeddings"
        )
    directions = principal_directions(centred, count=bits)
    rotation = random_rotation(bits, seed=seed)
    return directions @ minimise_quantisation(centred @ directions, rotation, iterations=iterations, report=report)


def principal_directions(centred: Tensor, *, count: int) -> Tensor:
    """The `count` eigenvectors of the covariance with the largest eigenvalues, float64 [dim, count], largest first.

    The sign of an eigenvector is chosen so that its largest entry is positive, with any LAPACK.
    """
    vectors: Tensor = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)[:, :count]
    largest = vectors.abs().argmax(dim=0, keepdim=True)
    return vectors * vectors.gather(0, largest).sign()


def random_rotation(size: int, *, seed: int) -> Tensor:
    """A random orthogonal matrix, float64 [size, size]."""
    gaussian = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    rotation: Tensor = torch.linalg.qr(gaussian).Q
    return rotation


def minimise_quantisation(
    projected: Tensor, rotation: Tensor, *, iterations: int, report: Callable[[dict[str, float]], None]
) -> Tensor:
    """Alternate B = sign(V R) and the Procrustes rotation R = U_hat U^T of B^T V = U Omega U_hat^T (Eq. 2 and after).

    Args:
        projected: V, float64 [n, bits].
        rotation: the initial R, orthogonal float64 [bits, bits].
        iterations: of both steps.
        report: gets {"epoch": i, "loss": mean squared entry of B - V R}, which never rises.

    Returns:
        orthogonal float64 [bits, bits].
    """
    for iteration in range(1, iterations + 1):
        code = sign(projected @ rotation).double()
        left, _, right_transposed = torch.linalg.svd(code.T @ projected)
        rotation = right_transposed.T @ left.T
        error = (code - projected @ rotation).square().mean()
        report({"epoch": iteration, "loss": float(error)})
    return rotation
