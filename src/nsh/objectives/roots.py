"""Square roots that are the same bytes on every x86-64 processor. Knows no loss."""

from torch import Tensor


def square_root(values: Tensor) -> Tensor:
    """Roots of `values`, float of any shape >= 0, within two units in the last place.

    `Tensor.sqrt` calls MKL. Its branch for processors of every maker begins with the processor's own estimate of
    1 / root, which differs between makers, and with it the last bits. `Tensor.rsqrt` divides 1 by the exact root.
    """
    return values.rsqrt().reciprocal()
