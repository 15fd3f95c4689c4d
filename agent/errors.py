"""Errors that end an agent, each with the exit code of its process."""

from cpgt.process import exit_codes


class AgentError(Exception):
    exit_code = exit_codes.FAILED

    @property
    def public_message(self) -> str:
        """The message that the other agents and the coordinator receive."""
        return str(self)


class InputError(AgentError, ValueError):
    """The agent's input (data, objective, parameters) cannot be used."""

    exit_code = exit_codes.BAD_INPUT


class DataError(InputError):
    """The private data cannot be used. The message may quote it, so only the owner reads it."""

    what = "data"

    @property
    def public_message(self) -> str:
        return f"its {self.what} cannot be used; its own log says why"


class CodeError(DataError):
    """Code of the owner's own cannot be used. Its error messages may quote data, too."""

    what = "code"


class FolderError(DataError):
    """The agent cannot write a file. The path is private."""

    what = "folder"


class LedgerError(DataError):
    """The ledger of the data set cannot be used. The message names the owner's paths and runs."""

    what = "ledger"


class PeerError(AgentError):
    """A neighbour or the coordinator is silent, unreachable, refuses, or breaks the protocol."""

    exit_code = exit_codes.PEER_FAILED


class BudgetError(AgentError):
    """Another round would spend more privacy than the budget allows."""

    exit_code = exit_codes.OUT_OF_BUDGET


class DivergedError(AgentError):
    """The state is no longer finite."""

    exit_code = exit_codes.DIVERGED
