"""Data sets, their seeded splits and the files they come from. Knows no model."""
