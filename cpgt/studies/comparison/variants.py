"""One network for several algorithms: the part of the network file that each of them uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpgt.agent.algorithms.registry import ALGORITHMS, algorithm_kind
from cpgt.configuration.loading import NetworkError, apply_overrides, parse_network
from cpgt.configuration.network import Network
from cpgt.extensions import installed
from cpgt.process.suggestions import did_you_mean


def variant(network: Network, kind: str, overrides: Sequence[str] = ()) -> Network:
    """The same problem and graph for algorithm `kind`, then changed by the overrides.

    It keeps alpha, and of gamma, compressor and noise what the algorithm uses. Options of an
    algorithm stay with that algorithm."""
    family, tables = algorithm_kind(kind), network.model_dump(exclude_none=True, mode="json")
    if kind != network.algorithm.kind:
        tables["algorithm"] = {"kind": kind, "alpha": network.algorithm.alpha}
    if family.takes_gamma:
        tables["algorithm"]["gamma"] = network.algorithm.gamma
    if not family.takes_compressor:
        del tables["compressor"]
    tables["noise"] = _noise(tables["noise"], family.make.channels) if family.adds_noise else {}
    tables["name"] = kind
    tables.pop("privacy", None)  # a budget must not end a comparison
    apply_overrides(tables, overrides)
    return parse_network(tables, kind)


def _noise(noise: dict[str, Any], channels: int) -> dict[str, Any]:
    """An algorithm that exchanges x alone has no noise on y."""
    if channels > 1:
        return noise
    agents = {agent: {**own, "s_y": 0.0} for agent, own in noise.get("agents", {}).items()}
    return {**noise, "s_y": 0.0, "agents": agents}


def read_algorithms(text: str) -> list[str]:
    """From a comma-separated list; an empty one means all algorithms."""
    kinds = list(dict.fromkeys(kind.strip() for kind in text.split(",") if kind.strip()))
    unknown = [kind for kind in kinds if kind not in ALGORITHMS]
    unknown = [kind for kind in unknown if kind not in installed("algorithm")]
    if unknown:
        choices = f"choose from {', '.join(ALGORITHMS)}{did_you_mean(unknown[0], ALGORITHMS)}"
        raise NetworkError(f"--algorithms: {unknown[0]!r} is not known; {choices}")
    return kinds or list(ALGORITHMS)


def _check_own(override: str, change: str) -> None:
    """A comparison is meaningful only if the problem is the same for all algorithms."""
    key = change.partition("=")[0].strip()
    if key.partition(".")[0] not in ("algorithm", "compressor", "noise") or key == "algorithm.kind":
        raise NetworkError(
            f"--set {override}: for one algorithm only algorithm, compressor and noise can change"
        )


def split_overrides(
    overrides: Sequence[str], kinds: Sequence[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Overrides for all algorithms, and those of the form `kind:key.path=value` for one."""
    common: list[str] = []
    own: dict[str, list[str]] = {kind: [] for kind in kinds}
    for override in overrides:
        kind, colon, rest = override.partition(":")
        if not colon or "=" in kind:
            common.append(override)
        elif kind in own:
            _check_own(override, rest)
            own[kind].append(rest)
        else:
            raise NetworkError(
                f"--set {override}: {kind!r} is not compared here, only {', '.join(kinds)}"
            )
    return common, own
