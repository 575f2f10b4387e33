"""Errors that the user can fix: one sentence with the rule, the value and the choices."""

from collections.abc import Iterable


class UserError(ValueError):
    """Something in the input is wrong; a command prints it as one line and exits with 2."""


class Diverged(RuntimeError):
    """A training run produced a number that is not finite and cannot continue."""


def choices(names: Iterable[str]) -> str:
    """The valid choices, as they stand at the end of a message."""
    return ", ".join(sorted(names))


def require(condition: bool, message: str) -> None:
    """Raise `UserError(message)` unless the condition holds."""
    if not condition:
        raise UserError(message)
