"""The shared parts of methods, by family: losses, graphs, closed forms and heads. Knows no method by name.

`base` defines a method, `gradient` is the base of methods that learn by gradient, `noise` gives them random numbers.
`sorting`, `contrast`, `graphs`, `adversarial`, `closed_forms` and `heads` are the families. Importing this package
fixes the kernels of torch (`nsh.system.kernels`).
"""

from nsh.system.kernels import fix_kernels

fix_kernels()
