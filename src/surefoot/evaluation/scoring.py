"""One number for a method: what grid searches compare."""

from __future__ import annotations

from surefoot.data.trajectories import Trajectories
from surefoot.evaluation.candidates import Evaluated
from surefoot.evaluation.off_policy import evaluate
from surefoot.learning.methods import Method


def score_method(method: Method, logs: Trajectories) -> float:
    """The doubly robust value of a method by logs, per decision point; `Method.score` says how.

    Parameters
    ----------
    method
        Fitted to other logs or not fitted yet.
    logs
        What it is judged by.

    Returns
    -------
    float

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=40, seed=0)
    >>> round(score_method(sf.method("ro-accb", pooling="all"), logs))
    1339
    """
    return evaluate(logs, {"method": _choose_judged(method, logs)}).value("method").value.value


def _choose_judged(method: Method, logs: Trajectories) -> Evaluated:
    fitted = vars(method).get("fitted_")
    if fitted is None or fitted.policies.participants is not None or fitted.policies.training is None:
        return method
    same_rows, same_people = fitted.policies.training.count_shared(logs)
    return method if same_rows or same_people else fitted.policies
