"""Coverage of the intervals of `sf.effects.effect_size`, in simulated trials with a known standardised effect.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.effect_size

Some minutes on one core; docs/effects.md reports the table.
"""

import numpy as np
import pyarrow as pa

from surefoot.effects import effect_size

TRIALS = 200
POINTS = 30
EFFECT = 0.3
COLUMNS = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p",
           "probability_of": "sending"}  # fmt: skip


def make_trial(rng, people):
    """A constant effect; in both arms the outcome has variance 1, of which 0.3 are differences between people."""
    shape = (people, POINTS)
    p = rng.choice([0.4, 0.6], shape)
    sent = (rng.random(shape) < p).astype(int)
    y = EFFECT * sent + np.sqrt(0.3) * rng.normal(size=(people, 1)) + np.sqrt(0.7) * rng.normal(size=shape)
    times = np.broadcast_to(np.arange(POINTS), shape)
    values = {"t": times, "p": p, "sent": sent, "y": y}
    return pa.table(
        {"person": np.repeat(np.arange(people), POINTS)} | {name: array.ravel() for name, array in values.items()}
    )


def main():
    print("| people | smoothed | mean d | coverage, mean over points |\n|--:|---|--:|--:|")
    for people in (25, 50, 100):
        for smooth in (True, False):
            shares = []
            sizes = []
            for seed in range(TRIALS):
                frame = make_trial(np.random.default_rng([seed, people]), people)
                curve = effect_size(frame, **COLUMNS, smooth=smooth, seed=seed)
                low, high = curve.conf_int().T
                shares.append(np.mean((low <= EFFECT) & (high >= EFFECT)))
                sizes.append(np.mean(curve.size))
            answer = "yes" if smooth else "no"
            print(f"| {people} | {answer} | {np.mean(sizes):.3f} | {100 * np.mean(shares):.1f} % |", flush=True)


if __name__ == "__main__":
    main()
