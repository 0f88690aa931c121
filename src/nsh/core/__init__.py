"""Codes, ranking, metrics, images and manifests, with numpy and Pillow alone. Of nsh it imports errors and system."""
