"""Heads: from embeddings to logits, and from logits to bits. Know no loss."""
