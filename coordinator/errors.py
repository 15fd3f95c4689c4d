"""The error that ends a run, with the exit code of the command."""


class RunError(Exception):
    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
