"""A plan as tables a person reads, and the frontier as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cpgt.agent.privacy.account import Epsilon
from cpgt.theory.planning.noise_tradeoff import NoiseChoice
from cpgt.theory.planning.plan import NetworkPlan

MOST_AGENTS = 12


def show(plan: NetworkPlan, console: Console) -> None:
    console.print(
        f"[bold]{plan.agents} agents, d = {plan.dimension}, {plan.rounds:,} rounds[/], noise"
        f" s_x = {plan.noise['s_x']:.4g}, s_y = {plan.noise['s_y']:.4g}, q = {plan.noise['q']:.6g}"
        + (" (chosen)" if plan.chosen else "")
    )
    console.print(_conditions(plan))
    console.print(_privacy(plan))
    console.print(_expectations(plan))
    for remark in _remarks(plan):
        console.print(remark, highlight=False, soft_wrap=True)
    if plan.frontier:
        console.print(_frontier(plan))


def _conditions(plan: NetworkPlan) -> Table:
    first, second = plan.theorem_1, plan.theorem_2
    table = Table("convergence", "value", "asked for", "")
    table.add_row("phi of the compressor", f"{plan.phi:.4g}", "below 1", _met(plan.phi < 1))
    table.add_row("rho_w of W", f"{plan.rho_w:.4g}", "below 1", _met(plan.rho_w < 1))
    claim = "the user's claim" if plan.smoothness_claimed else "largest of any f_i"
    table.add_row("smoothness L", f"{plan.smoothness:.4g}", claim, "")
    table.add_row(
        "strong convexity mu",
        f"{plan.convexity:.3g}",
        "of the average; above 0",
        _met(plan.convexity > 0),
    )
    table.add_row(
        "Theorem 1, gamma",
        f"{plan.gamma:g}",
        f"at most {first.gamma_bound:.3g}",
        _met(first.gamma_met),
    )
    table.add_row(
        "Theorem 1, alpha",
        f"{plan.alpha:g}",
        f"at most {first.alpha_bound:.3g}",
        _met(first.alpha_met),
    )
    table.add_row(
        "Theorem 2, alpha",
        f"{plan.alpha:g}",
        f"below {second.alpha_bound:.4g}",
        _met(second.alpha_met),
    )
    table.add_row(
        "Theorem 2, q",
        f"{plan.noise['q']:.6g}",
        f"above {second.q_min:.4g}, below 1",
        _met(second.q_met),
    )
    return table


def _privacy(plan: NetworkPlan) -> Table:
    table = Table(
        f"epsilon, delta = {plan.delta:g} ({plan.adjacency})", "paper", "sound", "for ever, exact"
    )
    rows: dict[tuple[Epsilon, Epsilon | None], list[int]] = {}
    for agent, spent in plan.epsilon.items():
        rows.setdefault((spent, plan.epsilon_forever[agent]), []).append(agent)
    for (spent, forever), agents in list(rows.items())[:MOST_AGENTS]:
        name = (
            "every agent"
            if len(agents) == plan.agents
            else f"agent {', '.join(map(str, agents[:8]))}"
        )
        table.add_row(
            f"{name}, {plan.rounds:,} rounds", f"{spent.paper:.4g}", f"{spent.sound:.4g}",
            "none" if forever is None else f"{forever.sound:.4g}",
        )  # fmt: skip
    return table


def _expectations(plan: NetworkPlan) -> Table:
    accuracy, rate = plan.accuracy, plan.rate
    table = Table("to expect", "value", "what it means")
    table.add_row(
        "limit to the optimum, mean", f"{accuracy.limit_mean:.4g}", "|x_inf - x*| over all agents"
    )
    table.add_row("the same, root mean square", f"{accuracy.limit_rms:.4g}", "exact for quadratics")
    if accuracy.end_rms is not None:
        table.add_row("after all rounds, rms", f"{accuracy.end_rms:.4g}", "|x(K) - x*|")
    table.add_row("at the start, rms", f"{accuracy.start_rms:.4g}", "|x(0) - x*|")
    table.add_row("rate of the noise", f"{rate.noise:.6g}", "q: no run is faster")
    if rate.iteration is not None:
        table.add_row(
            "rate of the iteration", f"{rate.iteration:.6g}", "exact: no compression, no noise"
        )
    if rate.rehearsed is not None:
        table.add_row(
            "rate as rehearsed", f"{rate.rehearsed:.6g}", "measured: compressor, no noise"
        )
    table.add_row("bytes a round", f"{plan.bytes_per_round:,.0f}", "measured: all edges, framing")
    if accuracy.settled is not None:
        spent = accuracy.settled * plan.bytes_per_round
        table.add_row(
            "rounds to get there", f"{accuracy.settled:,}", f"to within 5 %; {spent:,.0f} bytes"
        )
    return table


def _remarks(plan: NetworkPlan) -> list[str]:
    accuracy, rate = plan.accuracy, plan.rate
    remarks = [
        "Theorem 1 is sufficient, not necessary: networks that break it usually converge all the same."
    ]
    if plan.convexity_each <= 1e-12 * plan.smoothness:
        remarks.append(
            "Some f_i alone is not strongly convex, as Theorem 1 asks; mu is that of the average."
        )
    if plan.magnitude is None:
        remarks.append(
            "Rounding is not counted: epsilon is that of exact arithmetic. Set privacy.magnitude to count "
            "it, above all where noise falls far below the size of x."
        )
    else:
        beyond = plan.largest is not None and plan.largest > plan.magnitude
        remarks.append(
            f"Rounding is counted, and spends {plan.rounding:.2g} of epsilon: no noise is smaller than "
            f"noise.floor = {plan.floor:.3g}. An agent stops if its |x| or |y| leaves privacy.magnitude = "
            f"{plan.magnitude:g}; in rehearsals they come to {plan.largest:.3g}"
            + ("[bold red], beyond it[/]: choose a larger one." if beyond else ".")
        )
        if plan.rounding_claimed:
            remarks.append(
                "How far gradients are rounded is the user's claim: privacy.rounding, or 2^-40."
            )
    if not plan.quadratic:
        remarks.append("Not quadratic: accuracy and rate are to first order around the optimum.")
    fastest = [value for value in (rate.iteration, rate.rehearsed) if value is not None]
    if any(value >= 1 for value in fastest):
        remarks.append(
            "[bold red]DIVERGES[/]: a rate of 1 or more; lower algorithm.alpha or algorithm.gamma."
        )
    elif accuracy.settled is None and accuracy.end_rms is not None:
        remarks.append("Not within twice these rounds: give more rounds, or a smaller q.")
    elif accuracy.settled is not None and accuracy.settled > plan.rounds:
        remarks.append(
            f"{plan.rounds:,} rounds are too few: about {accuracy.settled:,} are needed."
        )
    if accuracy.limit_rms > accuracy.start_rms:
        remarks.append(
            "[bold]The noise moves the limit further than the start is from the optimum[/]: "
            "this much privacy leaves nothing of the result. More agents, more data or more epsilon."
        )
    return remarks


def _frontier(plan: NetworkPlan) -> Table:
    rounds = sorted({choice.rounds for choice in plan.frontier})
    table = Table(
        "epsilon", *(f"K = {k:,}" for k in rounds), title="least expected error |x(K) - x*|, rms"
    )
    for epsilon, row in _by_epsilon(plan.frontier).items():
        found = {choice.rounds: choice for choice in row}
        table.add_row(
            f"{epsilon:g}", *(f"{found[k].error:.4g}" if k in found else "" for k in rounds)
        )
    return table


def _by_epsilon(frontier: Sequence[NoiseChoice]) -> dict[float, list[NoiseChoice]]:
    return {
        e: [c for c in frontier if c.epsilon == e] for e in sorted({c.epsilon for c in frontier})
    }


def draw(plan: NetworkPlan, folder: Path) -> None:
    """frontier.pdf and frontier.png."""
    from cpgt.results.figures import figure, marked

    note = f"{plan.agents} agents, d = {plan.dimension}, delta = {plan.delta:g}, {plan.adjacency} adjacency"
    with figure(folder, "frontier", note=note) as (axes,):
        for i, k in enumerate(sorted({choice.rounds for choice in plan.frontier})):
            row = sorted((c for c in plan.frontier if c.rounds == k), key=lambda c: c.epsilon)
            axes.loglog(
                [c.epsilon for c in row], [c.error for c in row], label=f"{k:,} rounds", **marked(i)
            )
        axes.set_xticks([c.epsilon for c in row], [f"{c.epsilon:g}" for c in row])
        axes.minorticks_off()
        axes.axhline(plan.accuracy.start_rms, color="0.5", linewidth=1)
        axes.annotate(
            "the start", (row[0].epsilon, plan.accuracy.start_rms), fontsize=8, va="bottom"
        )
        axes.set_xlabel("epsilon (sound)")
        axes.set_ylabel("expected error |x(K) - x*|, rms")
        axes.legend()


def _met(yes: bool) -> str:
    return "met" if yes else "not met"
