"""What methods share, by family: the loss functions, graphs, closed forms and heads that a method is made of.

`base` says what a method is, `gradient` runs those that learn by gradient, `draws` is their noise. `sorting`,
`contrast`, `graphs`, `closed_forms` and `heads` are the families. This room knows no method by name.
Whoever imports it computes with the fixed kernels of `nsh.system.kernels`.
"""

from nsh.system.kernels import fix_kernels

fix_kernels()
