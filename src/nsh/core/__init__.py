"""Codes, ranking, metrics, images and manifests with numpy and Pillow alone. Knows no room but system."""
