"""A fit for each participant that borrows from everybody's."""

from __future__ import annotations

from typing import ClassVar

from surefoot.learning.pooling.person import PersonPooling


class PartialPooling(PersonPooling):
    """Coefficients wᵢ = β + bᵢ, bᵢ ~ N(0, Ψ): everybody has their own, drawn towards β as far as people are alike."""

    name: ClassVar[str] = "partial"
    serves_anybody: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = True
    needs_coefficients: ClassVar[bool] = True
    borrows: ClassVar[bool] = True
    second_judge: ClassVar[str] = "all"
    whom: ClassVar[str] = (
        "One policy for each participant, drawn towards everybody's as far as people are alike; one for anybody else."
    )
    for_whom: ClassVar[str] = "per participant, drawn towards everybody's"
    estimates: ClassVar[str] = "Population"
    without_points: ClassVar[str] = "so the policy is the one for anybody"
    few_points: ClassVar[str] = "the policy is the one for anybody"
