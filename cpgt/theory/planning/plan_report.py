"""A plan as tables and remarks, and its frontier as a figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from cpgt.results.formatting import format_met, format_number, make_table

if TYPE_CHECKING:
    from cpgt.agent.privacy.account import Epsilon
    from cpgt.theory.planning.plan import NetworkPlan

MAX_ROWS = 12
MAX_NAMES = 8


def show_plan(plan: NetworkPlan, console: Console) -> None:
    console.print(
        f"[bold]{plan.agents} agents, d = {plan.dimension}, {plan.rounds:,} rounds[/], noise"
        f" s_x = {plan.noise['s_x']:.4g}, s_y = {plan.noise['s_y']:.4g}, q = {plan.noise['q']:.6g}"
        + (" (chosen)" if plan.chosen else "")
    )
    console.print(_conditions(plan))
    console.print(_epsilons(plan))
    console.print(make_table(("forecast", "value", "what it means"), _forecast(plan)))
    for remark in _remarks(plan):
        console.print(remark, highlight=False, soft_wrap=True)
    if plan.frontier:
        console.print(_frontier(plan))


def _conditions(plan: NetworkPlan) -> Table:
    first, second, mu, q = plan.theorem_1, plan.theorem_2, plan.convexity, plan.noise["q"]
    alpha, gamma = f"{plan.alpha:g}", f"{plan.gamma:g}"
    source = "the user's claim" if plan.smoothness_claimed else "largest of any f_i"
    rows = [
        ("phi of the compressor", f"{plan.phi:.4g}", "below 1", plan.phi < 1),
        ("rho_w of W", f"{plan.rho_w:.4g}", "below 1", plan.rho_w < 1),
        ("smoothness L", f"{plan.smoothness:.4g}", source, None),
        ("strong convexity mu", f"{mu:.3g}", "of the average; above 0", mu > 0),
        ("Theorem 1, gamma", gamma, f"at most {first.gamma_bound:.3g}", first.gamma_met),
        ("Theorem 1, alpha", alpha, f"at most {first.alpha_bound:.3g}", first.alpha_met),
        ("Theorem 2, alpha", alpha, f"below {second.alpha_bound:.4g}", second.alpha_met),
        ("Theorem 2, smallest q", f"{q:.6g}", f"above {second.q_min:.4g}, below 1", second.q_met),
    ]
    cells = ((*words, "" if met is None else format_met(met)) for *words, met in rows)
    return make_table(("convergence", "value", "required", ""), cells)


def _epsilons(plan: NetworkPlan) -> Table:
    """One row for all agents that spend the same."""
    spenders: dict[tuple[Epsilon, Epsilon | None], list[int]] = {}
    for agent, spent in plan.epsilon.items():
        spenders.setdefault((spent, plan.epsilon_forever[agent]), []).append(agent)
    rows = []
    for (spent, forever), agents in list(spenders.items())[:MAX_ROWS]:
        numbers = f"agent {', '.join(map(str, agents[:MAX_NAMES]))}"
        name = "every agent" if len(agents) == plan.agents else numbers
        limit = format_number(forever and forever.sound, ".4g", "none")
        name = f"{name}, {plan.rounds:,} rounds"
        rows.append((name, f"{spent.paper:.4g}", f"{spent.sound:.4g}", limit))
    heading = f"epsilon, sensitivity = {plan.sensitivity:g} ({plan.adjacency})"
    return make_table((heading, "paper", "sound", "infinite rounds, exact"), rows)


def _forecast(plan: NetworkPlan) -> Iterator[tuple[str, str, str]]:
    accuracy, rate = plan.accuracy, plan.rate
    yield "limit to the optimum, mean", f"{accuracy.limit_mean:.4g}", "|x_inf - x*| over all agents"
    yield "limit to the optimum, rms", f"{accuracy.limit_rms:.4g}", "exact for quadratics"
    if accuracy.end_rms is not None:
        yield "after all rounds, rms", f"{accuracy.end_rms:.4g}", "|x(K) - x*|"
    yield "at the start, rms", f"{accuracy.start_rms:.4g}", "|x(0) - x*|"
    yield "rate of the noise", f"{rate.noise:.6g}", "q: no run is faster"
    if rate.iteration is not None:
        yield "rate of the iteration", f"{rate.iteration:.6g}", "exact: no compression, no noise"
    if rate.rehearsed is not None:
        yield "rate in a rehearsal", f"{rate.rehearsed:.6g}", "measured: compressor, no noise"
    yield "bytes a round", f"{plan.bytes_per_round:,.0f}", "measured: all edges, with framing"
    if accuracy.settled is not None:
        sent = accuracy.settled * plan.bytes_per_round
        yield "rounds to the limit", f"{accuracy.settled:,}", f"to within 5 %; {sent:,.0f} bytes"


def _remarks(plan: NetworkPlan) -> Iterator[str]:
    accuracy = plan.accuracy
    yield "Theorem 1 is sufficient, not necessary: networks that violate it usually converge."
    if plan.convexity_each <= 1e-12 * plan.smoothness:
        yield (
            "Theorem 1 requires that every f_i is strongly convex, and some are not; "
            "mu is that of the average."
        )
    yield from _rounding_remarks(plan)
    if not plan.quadratic:
        yield "Not quadratic: accuracy and rate are to first order around the optimum."
    if any(rate is not None and rate >= 1 for rate in (plan.rate.iteration, plan.rate.rehearsed)):
        yield "[bold red]DIVERGES[/]: a rate is 1 or more; lower algorithm.alpha or .gamma."
    elif accuracy.settled is None and accuracy.end_rms is not None:
        yield "The error does not settle in twice the rounds: use more rounds or a smaller q."
    elif accuracy.settled is not None and accuracy.settled > plan.rounds:
        yield f"{plan.rounds:,} rounds are too few: about {accuracy.settled:,} are needed."
    if accuracy.limit_rms > accuracy.start_rms:
        yield (
            "[bold]The noise moves the limit further than the start is from the optimum[/]: "
            "it leaves nothing of the result. Use more agents, more data or more epsilon."
        )


def _rounding_remarks(plan: NetworkPlan) -> Iterator[str]:
    if plan.magnitude is None or plan.largest is None:
        yield (
            "Rounding is not counted: epsilon is that of exact arithmetic. Set privacy.magnitude "
            "to count it, especially if the noise becomes far smaller than x."
        )
        return
    beyond = plan.largest > plan.magnitude
    yield (
        f"Rounding is counted and spends {plan.rounding:.2g} of epsilon: no noise is smaller than "
        f"noise.floor = {plan.floor:.3g}. Each |x| and |y| is kept within "
        f"privacy.magnitude = {plan.magnitude:g}; the largest in rehearsals is {plan.largest:.3g}"
        + ("[bold red], beyond it[/]: choose a larger one." if beyond else ".")
    )
    if plan.rounding_claimed:
        yield "The rounding error of gradients is the user's claim: privacy.rounding, or 2^-40."


def _frontier(plan: NetworkPlan) -> Table:
    errors = {(choice.epsilon, choice.rounds): choice.error for choice in plan.frontier}
    epsilons, rounds = (sorted(set(values)) for values in zip(*errors, strict=True))
    cells = {e: [format_number(errors.get((e, k)), ".4g", "") for k in rounds] for e in epsilons}
    rows = ((f"{e:g}", *row) for e, row in cells.items())
    headings = "epsilon", *(f"K = {k:,}" for k in rounds)
    return make_table(headings, rows, title="least expected error |x(K) - x*|, rms")


def draw_frontier(plan: NetworkPlan, folder: Path) -> None:
    """Write frontier.pdf and frontier.png."""
    from cpgt.results.figures import figure, marked

    difference = f"sensitivity = {plan.sensitivity:g}, {plan.adjacency} adjacency"
    note = f"{plan.agents} agents, d = {plan.dimension}, {difference}"
    epsilons = sorted({choice.epsilon for choice in plan.frontier})
    with figure(folder, "frontier", note=note) as (axes,):
        for i, k in enumerate(sorted({choice.rounds for choice in plan.frontier})):
            points = sorted((c.epsilon, c.error) for c in plan.frontier if c.rounds == k)
            axes.loglog(*zip(*points, strict=True), label=f"{k:,} rounds", **marked(i))
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        start = plan.accuracy.start_rms
        axes.axhline(start, color="0.5", linewidth=1)
        axes.annotate("the start", (epsilons[0], start), fontsize=8, va="bottom")
        axes.set(xlabel="epsilon (sound)", ylabel="expected error |x(K) - x*|, rms")
        axes.legend()
