"""R's random numbers (Mersenne Twister, inversion, rejection sampling), so that tests can draw the data of R's own tests."""

import numpy as np
from scipy.special import ndtri

WORDS = 624
BIG = 134217728  # 2^27: R joins two uniform numbers for a normal one.


class RRandom:
    """`set.seed(seed)` followed by `rnorm`, `rbinom(…, 1, p)` and `sample`."""

    def __init__(self, seed):
        state = seed & 0xFFFFFFFF
        for _ in range(50):
            state = (69069 * state + 1) & 0xFFFFFFFF
        words = []
        for _ in range(WORDS + 1):
            state = (69069 * state + 1) & 0xFFFFFFFF
            words.append(state)
        self.bits = np.random.MT19937()
        self.bits.state = {"bit_generator": "MT19937", "state": {"key": np.array(words[1:], np.uint32), "pos": WORDS}}

    def uniform(self):
        return int(self.bits.random_raw()) * 2.3283064365386963e-10

    def normal(self, size):
        pairs = [(int(BIG * self.uniform()) + self.uniform()) / BIG for _ in range(size)]
        return ndtri(pairs)

    def binomial(self, chances):
        """0 or 1 with every chance."""
        draws = []
        for chance in chances:
            rare = min(chance, 1 - chance)
            happened = self.uniform() >= 1 - rare
            draws.append(int(happened if chance <= 0.5 else not happened))
        return np.array(draws)

    def index(self, size):
        """0 to size − 1, by rejection."""
        bits = int(np.ceil(np.log2(size)))
        while True:
            value = 0
            for _ in range(0, bits + 1, 16):
                value = 65536 * value + int(self.uniform() * 65536)
            value &= (1 << bits) - 1
            if value < size:
                return value

    def sample(self, values, size=None, *, replace=False):
        if replace:
            return np.array([values[self.index(len(values))] for _ in range(size)])
        left = list(values)
        drawn = []
        for remaining in range(len(left), 0, -1):
            position = self.index(remaining)
            drawn.append(left[position])
            left[position] = left[remaining - 1]
        return np.array(drawn)
