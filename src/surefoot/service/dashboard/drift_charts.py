"""Charts of policy drift: versions from left to right."""

from __future__ import annotations

from markupsafe import Markup

from surefoot.service.dashboard.charts import SHARE, Scale, Series, draw_limits, draw_series, format_change, write_share
from surefoot.service.dashboard.policy_drift import Drift


def _label_versions(drift: Drift) -> list[str]:
    return [f"policy {version.id}" for version in drift.versions]


def draw_send_drift(drift: Drift, limits: tuple[float, float]) -> Markup:
    """The mean probability of sending of every version on the same states."""
    values = [drawn.send for drawn in drift.versions]
    series = Series("mean probability", values, interval="80 % of the decision points between")
    known = [(drawn.id, drawn.send[0]) for drawn in drift.versions if drawn.send is not None]
    means = "; ".join(f"policy {version} {write_share(mean)}" for version, mean in known)
    words = f"Mean probability of sending by policy version, on the same {drift.points} decision points: {means}."
    return draw_series(_label_versions(drift), [series], SHARE, words, draw_limits(limits))


def draw_coefficient_drift(drift: Drift) -> list[tuple[str, Markup]]:
    """Of every coefficient its name and its values over the versions, with 95 % intervals where they were kept."""
    drawn = []
    for action, feature in drift.terms:
        rows = [
            {(row.action, row.feature): row for row in version.coefficients}.get((action, feature))
            for version in drift.versions
        ]
        values = [None if row is None else (row.value, row.low, row.high) for row in rows]
        ends = [0.0, *(end for estimate in values if estimate is not None for end in estimate if end is not None)]
        scale = Scale.around(ends, format_change)
        listing = "; ".join(
            f"policy {version.id} {row.told}" for version, row in zip(drift.versions, rows, strict=True) if row
        )
        words = f"Coefficient of {feature} for {action} by policy version: {listing}."
        zero = Markup('<line class="zero" x1="0" y1="{0:.1f}" x2="100%" y2="{0:.1f}"/>').format(scale.place(0.0))
        drawn.append(
            (f"{action}: {feature}", draw_series(_label_versions(drift), [Series(feature, values)], scale, words, [zero]))
        )
    return drawn
