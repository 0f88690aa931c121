"""What programs see of an error is a promise: it is written down."""

import re
from pathlib import Path

from nsh.errors import (
    IndexBusy,
    IndexDamaged,
    IndexFull,
    IndexMisplaced,
    IndexMissing,
    IndexReadOnly,
    IndexReplaced,
    IndexUnusable,
)
from nsh.serving.service.problems import KINDS, problem_of

DOCS = Path(__file__).parents[3] / "docs" / "serving.md"


def test_every_type_of_problem_is_documented_with_its_status():
    documented = {}
    for types, statuses in re.findall(r"^\| (`[a-z`, -]+) \| ([\d, ]+) \|", DOCS.read_text(), flags=re.MULTILINE):
        names, numbers = re.findall(r"`([a-z-]+)`", types), [int(number) for number in statuses.split(",")]
        documented |= dict(zip(names, numbers * len(names) if len(numbers) == 1 else numbers, strict=True))
    assert documented == {name: kind.status for name, kind in KINDS.items()}


STATUSES = {
    IndexUnusable: 503,
    IndexMissing: 503,
    IndexBusy: 503,
    IndexReadOnly: 403,
    IndexDamaged: 500,
    IndexFull: 507,
    IndexMisplaced: 503,
    IndexReplaced: 503,
}


def test_every_error_of_an_index_has_its_status():
    assert STATUSES.keys() == {IndexUnusable, *IndexUnusable.__subclasses__()}
    assert {kind: KINDS[problem_of(kind("what was found")).kind].status for kind in STATUSES} == STATUSES
