"""The fit of an update that goes on from moments, and what it would be without something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.fitting.kept_moments import KeptMoments
from surefoot.fitting.part_fit import StudyFit, collect_fit, describe_policies
from surefoot.learning.methods import fit_moments
from surefoot.learning.moment_roots import MomentRoots
from surefoot.policies.features import critic_features
from surefoot.policies.policies import Policies
from surefoot.policies.training import Training
from surefoot.study import Study, StudyLogs
from surefoot.trial_rules.influence import CANDIDATES, Influence, compare_policies


@dataclass(frozen=True, eq=False)
class EarlierUpdate:
    """What an update goes on from."""

    kept: KeptMoments
    training: Training
    """All decision points, those that came since among them: what the policy will have been learned from."""


@dataclass(frozen=True, eq=False)
class OnwardFit:
    """A fit to moments and to what came since."""

    study: Study
    earlier: MomentRoots
    logs: StudyLogs
    """What came since."""
    fit: StudyFit
    kept: KeptMoments
    """Everything together."""

    def find_influences(self, policies: Policies, label: Callable[[int], str]) -> list[Influence]:
        """Of the new rows that matter most and, where people share a policy, of their participants; each is refitted.

        What came earlier was looked at when it was new, and had more influence then.
        """
        logs, distances, found = self.logs, self._measure_distances(), []
        data, largest = logs.logs, np.argsort(np.where(np.isnan(distances), -1.0, distances), kind="stable")[::-1]
        for place in largest[:CANDIDATES][~np.isnan(distances[largest[:CANDIDATES]])]:
            without = self._refit(self.earlier + self.fit.method.find_roots(data[np.arange(len(data)) != place]))
            found.append(Influence(label(int(logs.row[place])), compare_policies(self.study, logs, policies, without)))
        roots = self.kept.roots
        if policies.serves_anybody and len(roots.participants) > CANDIDATES:
            people = np.bincount(data.participant_index, np.nan_to_num(distances), len(data.participants))
            for number in np.argsort(people, kind="stable")[::-1][:CANDIDATES]:
                one = data.participants[number]
                without = self._refit(roots.of(roots.participants != one))
                found.append(Influence(f"participant {one}", compare_policies(self.study, logs, policies, without)))
        return found

    def _measure_distances(self) -> NDArray[np.float64]:
        """Cook's, of every new row among all rows: rᵢ² hᵢ / (1 − hᵢ)², hᵢ = xᵢᵀ (XᵀX)⁻¹ xᵢ; NaN where it was not used."""
        method, data = self.fit.method, self.logs.logs
        roots = self.kept.roots.total() if method.pooled_ else self.kept.roots
        inverse = np.linalg.pinv(roots.moments.gram, rcond=1e-12, hermitian=True)
        state = np.nan_to_num(data.state) * method.critic_sees_
        x = critic_features(state, data.action, data.actions, method.list_centres(data))
        leverage = np.minimum(np.einsum("ij,ijk,ik->i", x, inverse[method.unit_], x), 1 - 1e-9)
        return np.asarray(method.residuals_**2 * leverage / (1 - leverage) ** 2)

    def _refit(self, roots: MomentRoots) -> Policies:
        names, found = (self.logs.logs.state_names, self.logs.logs.action_names), []
        # What there is to warn of was said of the fit to everything.
        collect_fit(lambda: found.append(fit_moments(self.fit.method, roots, names).policies))
        return found[0]


def fit_onwards(study: Study, earlier: EarlierUpdate, logs: StudyLogs) -> OnwardFit:
    """Fit to moments and to what came since."""
    kept = earlier.kept.add_logs(study, logs)
    method, told = kept.fit(study, logs)
    fit = StudyFit(method, describe_policies(study, method, earlier.training), told)
    return OnwardFit(study, earlier.kept.roots, logs, fit, kept)
