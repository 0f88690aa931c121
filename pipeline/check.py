"""Stage check: params.yaml is read whole, so that all its mistakes are said together, before anything else runs."""

from nsh.config import read_params
from nsh.system.command import run_stage
from nsh.terminal import take_no_arguments


def main() -> None:
    """Read params.yaml, as every stage does."""
    read_params()


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
