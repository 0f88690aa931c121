"""What the studies' commands share."""

from nsh.studies.cells import make_cell
from nsh.studies.command import count_seeds


def test_seeds_of_earlier_calls_are_shown_where_they_are_the_study_s_own(quick, workspace, measure_here):
    def make_groups(seeds):
        changes = {"changed": {"iterations": 3}, "default": {}}
        return {
            name: [make_cell(quick, "itq", bits=8, seed=seed, changed=change) for seed in range(seeds)]
            for name, change in changes.items()
        }

    measure_here(make_groups(4)["default"], workspace)  # as the table does
    assert count_seeds(make_groups, workspace, least=1) == 1
    measure_here(make_groups(3)["changed"], workspace)
    assert count_seeds(make_groups, workspace, least=1) == 3
    assert count_seeds(make_groups, workspace, least=5) == 5
