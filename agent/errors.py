"""What makes an agent leave, each with the exit code of its process."""


class AgentError(Exception):
    exit_code = 1


class InputError(AgentError, ValueError):
    """What the agent was given (data, objective, parameters) cannot be used."""

    exit_code = 2


class PeerError(AgentError):
    """A neighbour or the coordinator is silent, unreachable, refuses, or says what it must not."""

    exit_code = 3


class BudgetError(AgentError):
    """Another round would spend more privacy than there is."""

    exit_code = 5


class DivergedError(AgentError):
    """The state is no longer finite."""

    exit_code = 4
