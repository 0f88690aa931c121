"""Differentiable sorting, and the losses on sorted lists."""
