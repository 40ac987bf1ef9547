"""A fitted excursion effect with statsmodels' manners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.effects.contrasts import ContrastResults, JointTest, covariance, joint_test
from surefoot.effects.estimators import ESTIMATORS, ExcursionEstimate, effect_names
from surefoot.effects.sample_quality import assess_sample
from surefoot.effects.terms import INTERCEPT
from surefoot.effects.text import HEADERS, lay_out, quality_lines
from surefoot.effects.trial_rows import TrialRows
from surefoot.errors import InputError, did_you_mean

Matrix = NDArray[np.float64]
Contrast = ArrayLike | Mapping[str, float]


@dataclass(frozen=True, eq=False)
class EffectResult:
    """What one estimator found; `params` are the effect's coefficients, `nuisance_params` the controls'.

    Attributes
    ----------
    estimator
        Its name, such as `wcls`.
    points
        The rows that were analysed.
    estimate
        Coefficients and their covariances.
    """

    estimator: str
    points: TrialRows
    estimate: ExcursionEstimate

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of `params`."""
        return effect_names(self.points)

    @property
    def nuisance_names(self) -> tuple[str, ...]:
        return self.estimate.nuisance_names

    @property
    def params(self) -> Matrix:
        return self.estimate.root.theta[self.estimate.controls :]

    @property
    def nuisance_params(self) -> Matrix:
        return self.estimate.nuisance

    @property
    def bse(self) -> Matrix:
        """Standard errors."""
        return np.asarray(np.sqrt(np.diagonal(self.cov_params())))

    @property
    def df_resid(self) -> int:
        """n − p − q."""
        return self.estimate.degrees

    @property
    def people(self) -> int:
        """Participants with a row that counts."""
        return self.estimate.root.people

    @property
    def rows(self) -> int:
        """Rows that count."""
        return int(self.points.counted.sum())

    @property
    def tvalues(self) -> Matrix:
        return self._each.tvalue

    @property
    def pvalues(self) -> Matrix:
        return self._each.pvalue

    @property
    def is_relative(self) -> bool:
        """Whether e^effect is a ratio: of risks, or of outcomes analysed as logarithms."""
        from surefoot.effects.outcome_scale import parse_transform

        return ESTIMATORS[self.estimator].binary or parse_transform(self.points.analysis.transform).is_log

    @cached_property
    def _each(self) -> ContrastResults:
        return self.t_test(np.eye(len(self.params)), names=self.names)

    def conf_int(self, alpha: float = 0.05) -> Matrix:
        """(coefficients, 2)."""
        return self._each.conf_int(alpha)

    def cov_params(self, *, nuisance: bool = False, corrected: bool | None = None) -> Matrix:
        """Covariance of `params`; with `nuisance` of (nuisance_params, params), where they are estimated jointly.

        Corrected for small samples, except for `dcee`, whose published form is not; `corrected` asks for either.
        """
        whole = covariance(self.estimate, corrected=corrected)
        first = 0 if nuisance else self.estimate.controls
        return np.asarray(whole[first:, first:])

    def t_test(self, contrast: Contrast, *, names: Sequence[str] = ()) -> ContrastResults:
        """Linear combinations of `params`: a vector, a matrix, or {name: coefficient}."""
        matrix = self._matrix(contrast)
        spread = matrix @ self.cov_params() @ matrix.T
        labels = tuple(names) or tuple(f"c{j}" for j in range(len(matrix)))
        error = np.sqrt(np.maximum(np.diagonal(spread), 0.0))
        return ContrastResults(labels, matrix @ self.params, error, self.df_resid)

    def joint_test(self, names: Sequence[str] | None = None) -> JointTest:
        """F test that the named coefficients (all of `params` unless named) are all nothing."""
        chosen = tuple(self.names if names is None else names)
        return joint_test(self.estimate, chosen, np.vstack([self._matrix({name: 1.0}) for name in chosen]))

    def effect_at(
        self, at: Mapping[str, float] | None = None, *, action: str | None = None, against: str | None = None
    ) -> ContrastResults:
        """The effect where the moderators have these values, of one action against another (nothing unless named).

        `found.effect_at({"home": 1, "day": 40})` is the effect at home on day 40; every moderator needs a value.
        """
        values = dict(at or {})
        wanted = [name for name in self.points.moderator_names if name != INTERCEPT]
        unknown = [name for name in values if name not in wanted]
        if unknown:
            raise InputError(f"'{unknown[0]}' is not a moderator{did_you_mean(unknown[0], wanted)}; they are {wanted}")
        absent = [name for name in wanted if name not in values]
        if absent:
            raise InputError(f"say where the effect is wanted: {absent} have no value; moderators are {wanted}")
        row = np.array([1.0, *(values[name] for name in wanted)])
        actions = self.points.action_names
        chosen = actions[1] if action is None and len(actions) == 2 else action
        matrix = np.zeros((len(actions), len(row)))
        for name, sign in ((chosen, 1.0), (against or actions[0], -1.0)):
            if name not in actions:
                raise InputError(f"action {name!r} is not known; name one of {list(actions)}")
            matrix[actions.index(name)] += sign * row
        label = ", ".join(f"{name} = {values[name]:g}" for name in wanted) or "average"
        if len(actions) > 2:
            label = f"{chosen} against {against or actions[0]}, {label}"
        return self.t_test(matrix[1:].ravel(), names=(label,))

    def summary(self) -> str:
        """The table of coefficients, as statsmodels prints a fit, and what must stand beside it."""
        ends = self.conf_int()
        each = (self.params, self.bse, self.tvalues, self.pvalues, *ends.T)
        rows = [[name, *(f"{values[j]:.4f}" for values in each)] for j, name in enumerate(self.names)]
        estimator, joint, analysis = ESTIMATORS[self.estimator], self.joint_test(), self.points.analysis
        return "\n".join([
            f"Causal excursion effect ({estimator.estimand}) by {estimator.label}",
            f"outcome {analysis.outcome}, treatment {analysis.treatment}, {self.people} participants, {self.rows:,} rows, "
            f"{self.df_resid} degrees of freedom",
            lay_out(rows, HEADERS),
            f"All nothing: F({joint.df_num}, {joint.df_denom}) = {joint.fvalue:.3f}, p = {joint.pvalue:.4f}",
            *quality_lines(assess_sample(self.points)),
        ])  # fmt: skip

    def _matrix(self, contrast: Contrast) -> Matrix:
        if isinstance(contrast, Mapping):
            unknown = [name for name in contrast if name not in self.names]
            if unknown:
                raise InputError(
                    f"no coefficient '{unknown[0]}'{did_you_mean(unknown[0], self.names)}; they are {self.names}"
                )
            contrast = [float(contrast.get(name, 0.0)) for name in self.names]
        matrix = np.atleast_2d(np.asarray(contrast, dtype=np.float64))
        if matrix.ndim != 2 or matrix.shape[1] != len(self.params):
            raise InputError(f"a contrast needs {len(self.params)} numbers, for {self.names}; got shape {matrix.shape}")
        return matrix
