"""Sorting that gradients can pass, and the losses on sorted lists."""
