import inspect
import io

from tqdm import tqdm

from nsh.system.progress import Progress, no_progress


def test_no_progress_hands_the_iterable_back_unread():
    numbers = iter(range(3))
    assert no_progress(numbers, desc="count", total=3) is numbers
    assert list(numbers) == [0, 1, 2]


def test_desc_and_total_may_be_left_out():
    assert list(no_progress([1, 2])) == [1, 2]


def test_tqdm_is_called_the_same_way():
    def count(progress: Progress) -> int:
        return sum(progress(range(4), desc="count", total=4))

    screen = io.StringIO()
    assert count(no_progress) == count(lambda items, **options: tqdm(items, file=screen, **options)) == 6
    assert "count: 100%" in screen.getvalue()
    assert {"desc", "total"} <= inspect.signature(tqdm.__init__).parameters.keys()
