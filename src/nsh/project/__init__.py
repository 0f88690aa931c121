"""A project on disk: where every file of the pipeline lies, and readers of what several rooms read."""
