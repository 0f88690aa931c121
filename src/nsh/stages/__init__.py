"""What the stages train, export, encode and evaluate do, as functions: stages of dvc.yaml and studies both call them.

Each reads the data/ of a project and writes files of one pair, there or in another folder. Values come as arguments:
nothing here reads params.yaml or speaks to MLflow.
"""
