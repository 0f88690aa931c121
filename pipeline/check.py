"""Stage check: reads all of params.yaml, so that one message lists every mistake before any other stage runs."""

from nsh.config import read_params
from nsh.system.command import run_stage
from nsh.terminal import take_no_arguments


def main() -> None:
    """Read params.yaml, as every stage does."""
    read_params()


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
