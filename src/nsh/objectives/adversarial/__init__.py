"""Generators and critics of features: their networks and losses, and the signs that their game has failed."""
