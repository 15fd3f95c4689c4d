"""Options that are convenient for an experiment and give privacy away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpgt.process.wait_notices import name_agents
from cpgt.wire.messages import OBSERVED, SEEDED

if TYPE_CHECKING:  # `cpgt run` needs this module before it has time to load the schema
    from cpgt.configuration.schema import PublicNetwork

# reasons that agents report of themselves
AGENT_REASONS = {
    SEEDED: "with a seed: anyone who knows it can take the noise off",
    OBSERVED: "observed: private x, y and noise are written to a file",
}


@dataclass(frozen=True)
class Experiment:
    seed: int | None = None
    observe: bool = False

    def reasons(self, network: PublicNetwork) -> list[str]:
        """Why a run of this network is not private; empty when no reason is known."""
        found = []
        if self.seed is not None:
            found.append(f"seed {self.seed} was given: anyone who knows it can take the noise off")
        if self.observe:
            writes = "every agent writes its private x, y and noise to a file"
            found.append(f"states are observed: {writes}")
        if not network.noisy:
            why = f"algorithm {network.algorithm.kind!r}: noise.s_x or noise.s_y is 0"
            found.append(f"some messages carry no noise ({why})")
        return found

    def reported(self, agents: Mapping[int, Sequence[str]]) -> list[str]:
        """Further reasons, which agents report of themselves: others may have started them."""
        known = [SEEDED] * (self.seed is not None) + [OBSERVED] * self.observe
        found = []
        for reason in (reason for reason in AGENT_REASONS if reason not in known):
            named = [agent for agent, reasons in sorted(agents.items()) if reason in reasons]
            if named:
                found.append(f"{name_agents(named)} {AGENT_REASONS[reason]}")
        return found

    def flags(self, *, quiet: bool = False) -> list[str]:
        """The options of `cpgt coordinator` and `cpgt agent` that mean the same."""
        seed = [] if self.seed is None else ["--seed", str(self.seed)]
        return [*seed, *["--observe"] * self.observe, *["--quiet"] * quiet]
