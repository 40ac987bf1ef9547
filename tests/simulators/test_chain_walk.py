import numpy as np

import surefoot as sf
from surefoot.simulators import ChainWalk
from tests.simulators.closed_forms import assert_close, long_run


def test_chain_walk_closed_forms():
    sim = ChainWalk(participants=200)
    assert_close(long_run(sim, sim.oracle_myopic()), 90)
    assert_close(long_run(sim, sf.policies.coin(2)), 50)
    # Always left: the chain sits at 1, 2, 3, 4 in proportion 9³ : 9² : 9 : 1.
    share = np.array([729, 81, 9, 1]) / 820
    assert_close(long_run(sim, sf.policies.never(2)), 100 * (share[1] + share[2]))
