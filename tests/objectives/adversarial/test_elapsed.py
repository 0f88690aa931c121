"""The share of a training that is over."""

import pytest

from nsh.methods.hashgan import Hashgan
from nsh.objectives.adversarial.elapsed import Elapsed


def test_shares_grow_from_0_to_1_and_stay_there(draw_clusters):
    elapsed = Elapsed(Hashgan(epochs=2, batch=25), draw_clusters(count=60))
    assert [elapsed.next() for _ in range(6)] == [0, 0.25, 0.5, 0.75, 1, 1]


@pytest.mark.parametrize("images", [1, 24])
def test_fewer_images_than_a_batch_are_refused_by_the_loop_and_not_here(draw_clusters, images):
    assert Elapsed(Hashgan(epochs=2, batch=25), draw_clusters(count=images)).next() == 0


def test_a_restored_state_goes_on_where_it_stopped(draw_clusters):
    method, data = Hashgan(epochs=2, batch=25), draw_clusters()
    elapsed, restored = Elapsed(method, data), Elapsed(method, data)
    elapsed.next()
    restored.load_state_dict(elapsed.state_dict())
    assert restored.next() == elapsed.next() == 0.25
