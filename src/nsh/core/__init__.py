"""Codes, ranking, metrics, images and manifests with numpy and Pillow alone. Imports no other package of nsh but system."""
