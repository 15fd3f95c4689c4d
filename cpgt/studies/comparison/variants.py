"""One network, played by several algorithms: what of the network file each of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cpgt.agent.algorithms import ALGORITHMS
from cpgt.configuration.loading import NetworkError, apply_overrides, parse_network
from cpgt.configuration.network import Network


def variant(network: Network, kind: str, overrides: Sequence[str] = ()) -> Network:
    """The same problem and graph, played by `kind`: with the network's alpha, and with its gamma, compressor,
    noise and the algorithm's own options as far as it has any; then with the overrides."""
    family, tables = ALGORITHMS[kind], network.model_dump(exclude_none=True, mode="json")
    kept = (
        tables["algorithm"]
        if kind == network.algorithm.kind
        else {"alpha": network.algorithm.alpha}
    )
    tables["algorithm"] = {**kept, "kind": kind}
    if family.takes_gamma:
        tables["algorithm"]["gamma"] = network.algorithm.gamma
    if not family.takes_compressor:
        del tables["compressor"]
    tables["noise"] = _noise(tables["noise"], family.make.channels) if family.adds_noise else {}
    tables["name"] = kind
    tables.pop("privacy", None)  # no budget is to end a comparison
    apply_overrides(tables, overrides)
    return parse_network(tables, kind)


def _noise(noise: dict[str, Any], channels: int) -> dict[str, Any]:
    """Where x alone is exchanged there is no noise on y."""
    if channels > 1:
        return noise
    agents = {agent: {**own, "s_y": 0.0} for agent, own in noise.get("agents", {}).items()}
    return {**noise, "s_y": 0.0, "agents": agents}


def read_algorithms(text: str) -> list[str]:
    """From a list with commas; all that there are from an empty one."""
    kinds = list(dict.fromkeys(kind.strip() for kind in text.split(",") if kind.strip()))
    unknown = [kind for kind in kinds if kind not in ALGORITHMS]
    if unknown:
        raise NetworkError(
            f"--algorithms: {unknown[0]!r} is not known; there are {', '.join(ALGORITHMS)}"
        )
    return kinds or list(ALGORITHMS)


def _check_own(override: str, change: str) -> None:
    """The problem is the same for all, or the comparison means nothing."""
    key = change.partition("=")[0].strip()
    if key.partition(".")[0] not in ("algorithm", "compressor", "noise") or key == "algorithm.kind":
        raise NetworkError(
            f"--set {override}: one algorithm alone may change algorithm, compressor and noise"
        )


def split_overrides(
    overrides: Sequence[str], kinds: Sequence[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Overrides for all, and those of the form `kind:key.path=value` for one algorithm."""
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
                f"--set {override}: {kind!r} is not compared here; there are {', '.join(kinds)}"
            )
    return common, own
