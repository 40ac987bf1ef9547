"""Simulate a small study, spoil it, and fit it plainly and robustly.

    python examples/quickstart.py --out results

Prints what each policy earns in the long run and which decision points the robust critic removed, and writes one figure.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import surefoot as sf

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the figure")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    study = sf.simulators.HeartSteps(participants=50)
    clean = study.collect(sf.policies.coin(2), decision_points=210, seed=0)
    # Handling the phone after a prompt counts as steps: 4 % of the decision points are five times as high as they should be.
    dirty = sf.simulators.contaminate(clean, mechanism="prompted", ratio=0.04, strength=5, seed=1)
    fitted = {name: sf.method(name).fit(dirty.logs) for name in ("accb", "ro-accb")}

    deciding = {**fitted, **sf.simulators.reference_policies(study)}
    table = sf.simulators.compare(study, deciding, seed=2, backend="pyarrow").to_pylist()
    outcome = {row["name"]: row for row in table if row["measure"] == "long_run_average_reward"}
    treated = {row["name"]: row for row in table if row["measure"] == "share_treated"}
    print("50 people, 210 decision points each, 4 % of the decision points spoiled\n")
    print("                steps per decision point (ElrAR)   treated   removed   of them spoiled   spoiled found")
    for name in deciding:
        mean, error = outcome[name]["mean"], outcome[name]["standard_error"]
        line = f"{name:<14}{mean:>14,.0f} ± {error:<4.0f}{treated[name]['mean']:>24.0%}"
        if name in fitted:
            removed = fitted[name].weights_ == 0
            line += f"{removed.mean():>17.1%}"
            if removed.any():
                line += f"{dirty.touched[removed].mean():>18.0%}{removed[dirty.touched].mean():>16.0%}"
        print(line)

    path = out / "quickstart.png"
    draw(fitted["ro-accb"], dirty, outcome).savefig(path, dpi=150)
    print(f"\nFigure: {path}")


def draw(robust, dirty, outcome):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(2, 3), layout="constrained")
    names = ["never", "oracle-myopic", "coin", "ro-accb", "accb", "always"]
    for place, name in enumerate(names):
        colour = {"ro-accb": BLUE, "accb": ORANGE}.get(name, GREY)
        width = 1.96 * outcome[name]["standard_error"]
        left.errorbar(outcome[name]["mean"], -place, xerr=width, fmt="o", color=colour, capsize=3)
    left.set_yticks(range(0, -len(names), -1), names)
    left.set_xlabel("steps per decision point in the long run\n(mean over people, 95 % interval)")
    left.set_title("What the policies earn")

    mine = dirty.logs.participant_index == 0
    time, steps = dirty.logs.time[mine] / 5, dirty.logs.outcome[mine]
    removed, spoiled = robust.weights_[mine] == 0, dirty.touched[mine]
    right.plot(time[~removed], steps[~removed], ".", color=GREY, label="kept")
    right.plot(time[removed], steps[removed], "x", color=BLUE, label="removed by the robust critic")
    right.plot(time[spoiled], steps[spoiled], "o", mfc="none", color=ORANGE, ms=11, label="truly spoiled")
    right.set_xlabel("day of the study")
    right.set_ylabel("steps in the three hours after")
    right.set_title("One participant's study")
    right.set_ylim(top=np.max(steps) * 1.25)
    right.legend(loc="upper left", ncols=3, frameon=False, fontsize="small")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main()
