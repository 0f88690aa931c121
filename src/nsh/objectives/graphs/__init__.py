"""Who resembles whom: neighbours, anchor graphs, and the loss that compares two structures of similarity."""
