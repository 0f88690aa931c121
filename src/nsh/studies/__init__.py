"""Many runs side by side: every method at several code lengths and seeds, and what the paper's tables and figures show.

A *setting* is a data set with its split and backbone, a *cell* one (method, parameters, bits, seed) in it. Cells are
measured from torch's head on the embeddings, without the ONNX file between, and cached by everything they depend on.
"""
