"""What makes an agent leave, each with the exit code of its process."""

from cpgt.process import exit_codes


class AgentError(Exception):
    exit_code = exit_codes.FAILED

    @property
    def told(self) -> str:
        """What the others are told of it."""
        return str(self)


class InputError(AgentError, ValueError):
    """What the agent was given (data, objective, parameters) cannot be used."""

    exit_code = exit_codes.BAD_INPUT


class DataError(InputError):
    """The private data cannot be used. What is wrong with it is for its owner's eyes."""

    what = "data"

    @property
    def told(self) -> str:
        return f"its {self.what} cannot be used; its own log says why"


class CodeError(DataError):
    """An objective of the owner's own cannot be used. Its words may be made of data, too."""

    what = "objective"


class FolderError(DataError):
    """A file of the agent's own cannot be written. Where it is, is nobody else's business."""

    what = "folder"


class PeerError(AgentError):
    """A neighbour or the coordinator is silent, unreachable, refuses, or says what it must not."""

    exit_code = exit_codes.PEER_FAILED


class BudgetError(AgentError):
    """Another round would spend more privacy than there is."""

    exit_code = exit_codes.OUT_OF_BUDGET


class DivergedError(AgentError):
    """The state is no longer finite."""

    exit_code = exit_codes.DIVERGED
