"""Closed forms: principal directions, rotations, whitening."""
