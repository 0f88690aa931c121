"""Many trainings side by side: every method at several lengths and seeds, for the paper's tables and figures.

A *setting* is a data set with its split and backbone, a *trial* one method with its parameters, code length and seed in
it. A trial runs the functions of the stages train to evaluate, so that its figures are those of an exported encoder.
Tables and figures read what trials have left.
"""
