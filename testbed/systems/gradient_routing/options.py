"""The options of systems whose routes are drawn."""

from __future__ import annotations

from pydantic import Field

from testbed.systems.system import WithWindow


class Drawn(WithWindow):
    """How routes are drawn from a relaxation."""

    draws: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="how often rounding draws; the best draw counts (the paper draws once)",
        examples=[32],
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        description="the seed of the draws, a whole number of at least 0; unset, each repeat has"
        " its own",
        examples=[1],
    )

    def draws_anew(self) -> bool:
        """Whether each repeat draws its routes with its own seed."""
        return self.seed is None
