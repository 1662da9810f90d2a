"""A solver's options: declared as data, checked in one place, refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sdpkit.errors import InputError


@dataclass(frozen=True)
class Option:
    """What an option of a solver may be.

    Attributes
    ----------
    default : object, default None
        Its value where the caller gives none.
    values : tuple, default ()
        What it may be; an empty tuple allows anything.

    Examples
    --------
    >>> Option.one_of("fitted", "plain")
    Option(default='fitted', values=('fitted', 'plain'))
    """

    default: Any = None
    values: tuple[Any, ...] = ()

    @classmethod
    def one_of(cls, *values: Any) -> Option:
        """A choice; the first value is the default."""
        return cls(values[0], values)


def check_names(solver: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that `solver` does not have.

    Parameters
    ----------
    solver : str
        The solver's name, for the message.
    given : iterable of str
        The names of the options that were given.
    known : iterable of str
        The names of the options that it has.

    Raises
    ------
    InputError
        If a given name is not known.

    Examples
    --------
    >>> check_names("factored", ["foo"], [])
    Traceback (most recent call last):
    sdpkit.errors.InputError: solver 'factored' has no option 'foo' (it has none). tol, max_iter \
    and time_limit are arguments of solve().
    """
    names = tuple(known)
    for option in given:
        if option not in names:
            raise InputError(
                f"solver {solver!r} has no option {option!r} (it has {', '.join(names) or 'none'})."
                " tol, max_iter and time_limit are arguments of solve()."
            )


def checked_options(
    solver: str, given: Mapping[str, Any], known: Mapping[str, Option]
) -> dict[str, Any]:
    """The given options on top of the defaults; unknown names and values are refused.

    >>> checked_options("projection", {}, {"metric": Option.one_of("fitted", "plain")})
    {'metric': 'fitted'}
    """
    check_names(solver, given, known)
    for name, value in given.items():
        values = known[name].values
        if values and not any(value is allowed or value == allowed for allowed in values):
            raise InputError(
                f"option {name!r} of solver {solver!r} is {value!r}; "
                f"use one of {', '.join(map(repr, values))}"
            )
    return {name: given.get(name, option.default) for name, option in known.items()}


__all__ = ["Option", "check_names", "checked_options"]
