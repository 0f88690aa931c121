"""Similarity of images: neighbours, anchor graphs, and the loss that compares the cosines of codes and features."""
