"""A deployment: a folder with an encoder and its index, which are replaced together under a running service."""
