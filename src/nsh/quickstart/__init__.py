"""`nsh quickstart`: from a folder of photos to a search page, by the commands that a user would type."""
