"""How a run ends badly, with the exit code that the command gives."""


class RunError(Exception):
    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
