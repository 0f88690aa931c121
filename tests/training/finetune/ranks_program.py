"""What the tests of ranks start: `ranks_program.py <folder> <act>`; it starts its own ranks, which alone load much."""

import sys
from pathlib import Path

from tests.waiting import PATIENCE

from nsh.system.command import run_command
from nsh.training.finetune import ranks


def main() -> None:
    if ranks.are_started():
        from tests.training.finetune.ranks_acts import act

        act(Path(sys.argv[1]), sys.argv[2])
    else:
        ranks.NOTICE = ranks.GRACE = PATIENCE  # whether a rank finds out and ends is what is tested, not how soon
        ranks.start_ranks(2)


run_command(main)
