"""One thin script a stage of dvc.yaml: read params.yaml, call `nsh`, write outputs. No stage knows another."""
