"""Heads: from embeddings to logits, and from logits to bits. They know no loss."""
