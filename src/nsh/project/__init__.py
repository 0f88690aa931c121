"""A project on disk: paths of all files of the pipeline, and readers of embeddings and results."""
