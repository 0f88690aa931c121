"""Data sets, their files and their seeded splits. Knows no model."""
