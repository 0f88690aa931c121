"""Which tests are slow, and the order in which files of tests begin."""

from pathlib import Path

TESTS = Path(__file__).parent

# What starts processes, exports or trains networks, or tries very many cases, the longest first: it begins first, so
# that no worker is left alone with it. What makes something for other files comes long before them, so that no worker
# waits for it. The rest is `make test-fast`.
SLOW = (
    *("end_to_end/test_repro", "pipeline", "export/test_graph", "training/finetune", "end_to_end", "test_day_two"),
    *("methods/test_all_methods", "studies", "tuning", "tracking", "export"),
    *("backbones", "serving/test_commands", "serving/service/test_page", "serving/service/test_page_searches"),
    *("serving/service/test_server", "training"),
    *("core/test_metrics_evaluation", "serving/index/test_writer", "data/test_coco", "data/test_draw"),
    *("data/test_debian", "data/test_split_lists", "serving/bulk", "test_profiles", "test_use_profile"),
    *("system/test_command", "serving/engines"),
)


def place(path: Path) -> int:
    """The place of a file of tests in the order; those that are not slow come last."""
    name = path.relative_to(TESTS).as_posix()
    return next((number for number, starts in enumerate(SLOW) if name.startswith(starts)), len(SLOW))


def is_slow(path: Path) -> bool:
    """Whether `make test-fast` leaves the tests of this file out."""
    return place(path) < len(SLOW)
