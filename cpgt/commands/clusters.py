"""Submitting a network to a cluster's scheduler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from cpgt.commands import options

if TYPE_CHECKING:
    from cpgt.configuration.network import Network
    from cpgt.runs.experiment import Experiment


@click.group()
def submit() -> None:
    """Submit a network as a job to a cluster."""


@submit.command()
@click.argument("network")
@click.argument("sbatch", nargs=-1, type=click.UNPROCESSED, metavar="[-- SBATCH OPTIONS]")
@options.rounds
@options.out
@options.change
@options.seed
@options.observe
@click.option("--wait", is_flag=True, help="Wait until the job has ended; exit with its code.")
@click.option("--dry-run", is_flag=True, help="Write the job without submitting it.")
def slurm(
    network: str, sbatch: tuple[str, ...], rounds: int | None, out: Path | None,
    overrides: tuple[str, ...], seed: int | None, observe: bool, wait: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Run NETWORK as one Slurm job, coordinator and agents as its tasks.

    Options after -- are passed to sbatch. All nodes must share the folder of the results.
    """
    from cpgt.deployment.slurm import require_slurm, submit_job, write_job
    from cpgt.runs.experiment import Experiment

    if not dry_run:
        require_slurm()
    model = options.load_own(network, overrides, rounds)
    folder = options.new_folder(out, model.name).absolute()
    experiment = Experiment(seed, observe)
    script = write_job(model, folder, experiment, options.code_folder(network))
    for reason in experiment.reasons(model):
        click.echo(f"NOT PRIVATE: {reason}", err=True)
    if dry_run:
        click.echo(f"written, not submitted: {script}")
        return
    job = submit_job(script, sbatch)
    click.echo(f"job {job} submitted; results and log: {folder}")
    if wait:
        _wait(job, model, folder, experiment)


def _wait(job: str, network: Network, folder: Path, experiment: Experiment) -> None:
    """Wait until the job has ended, then show what `cpgt run` shows. Raises if the job failed."""
    from msgspec.structs import replace

    from cpgt.coordinator.errors import RunError
    from cpgt.deployment.slurm import LOG, cause, wait_for_end
    from cpgt.results.printing import print_summary
    from cpgt.results.report import leave_report
    from cpgt.results.summary import write_summary
    from cpgt.runs.completion import complete_summary

    try:
        ended = wait_for_end(job)
    except KeyboardInterrupt:
        click.echo(f"job {job} goes on; to end it: scancel {job}", err=True)
        raise
    summary = complete_summary(network, folder, experiment)
    if summary:
        # the coordinator of a Slurm job does not get the seeds
        summary = replace(summary, not_private=experiment.reasons(network))
        write_summary(summary, folder)
        print_summary(summary, folder, options.console())
        click.echo(leave_report(folder))  # again: now with what the files of all agents say
    if ended.exit_code:
        # a coordinator that was only asked to stop does not know the reason
        why = summary.error if summary and summary.status == "failed" else cause(folder)
        raise RunError(
            f"job {job}: {ended.state.lower()}: {why}; its log: {folder / LOG}", ended.exit_code
        )


@submit.command("slurm-task", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
def slurm_task(folder: Path) -> None:
    """One task of the job: becomes the coordinator or an agent."""
    from cpgt.deployment.slurm_task import command_of_task

    command = command_of_task(folder, os.environ)
    os.execv(command[0], command)


@click.group()
def export() -> None:
    """Write what a cluster needs to run a network."""


@export.command()
@click.argument("network")
@click.option("--image", default="cpgt", show_default=True,
              help="Image that contains cpgt, and your own code if any.")  # fmt: skip
@click.option("--data-claim", metavar="NAME",
              help="PersistentVolumeClaim with each agent's data: 1/, 2/, ...")  # fmt: skip
@click.option("--results-claim", metavar="NAME",
              help="PersistentVolumeClaim that all nodes may write to. "
              "[none: only the log outlives the pods]")  # fmt: skip
@options.code
@options.rounds
@options.change
@click.option("--out", type=click.File("w", lazy=True), default="-",
              help="File to write. [standard output]")  # fmt: skip
def kubernetes(
    network: str, image: str, data_claim: str | None, results_claim: str | None, rounds: int | None,
    overrides: tuple[str, ...], out: IO[str],
) -> None:  # fmt: skip
    """Write NETWORK as an Indexed Job, a headless Service and a ConfigMap.

    NETWORK is a file with public keys, as `cpgt keys all` makes it. No manifest contains a secret
    key: a comment at the top shows how to create a Secret from the key files.
    """
    from cpgt.deployment.kubernetes import Cluster, manifests, to_yaml

    model = options.load(network, overrides, rounds, reads_data=False)
    documents = manifests(model, Cluster(image, data_claim, results_claim))
    out.write(to_yaml(documents, model, options.network_folder(network)))
