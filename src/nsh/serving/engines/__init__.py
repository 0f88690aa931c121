"""Engines that span machines. Each is imported where it is used, and installed by an extra of its own."""
