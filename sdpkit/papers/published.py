"""What the papers say: the data of the entries, read from the TOML file beside each module."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from sdpkit.papers.entry import NO_PROGRAM, Certified, Entry, Row, Setting
from sdpkit.papers.pictures import Panel

Items = Iterator[Row | Panel]
"""What an entry yields."""


@dataclass(frozen=True)
class Published:
    """The data of one module of `sdpkit.papers.entries`.

    Attributes
    ----------
    claims: name → (what is compared, what the paper says of it), with fields for `str.format`
    tables: the paper's numbers, by table
    described: name of an entry → all of it; `make` names the function and its arguments

    Examples
    --------
    >>> PAPER = Published.of("large")
    >>> print(PAPER.claim("random start", "0.4", True).published)
    far off
    """

    claims: Mapping[str, tuple[str, str]]
    tables: Mapping[str, Any]
    described: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, module: str) -> Published:
        """The data of the module of this name."""
        file = resources.files("sdpkit.papers.entries").joinpath(f"{module}.toml")
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        claims = {name: (what, says) for name, (what, says) in data["claims"].items()}
        return cls(claims, data.get("tables", {}), data["entries"])

    def claim(
        self,
        name: str,
        ours: str,
        holds: bool | None,
        proof: Certified = NO_PROGRAM,
        /,
        **words: Any,
    ) -> Row:
        """The row of a claim: what came out here and whether it holds; `words` fill its fields."""
        what, says = (text.format(**words) for text in self.claims[name])
        return Row.claim(what, says, ours, holds, proof)

    def entries(self, module: Mapping[str, Any]) -> dict[str, Entry]:
        """Every entry with the function of the module that makes it."""
        found = {}
        for name, described in self.described.items():
            said = described.items()
            given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in said}
            maker, *arguments = given.pop("make")
            found[name] = Entry(make=_make(module[maker], arguments), **given)
        return found


def _make(maker: Callable[..., Items], arguments: list[Any]) -> Callable[[Setting], Items]:
    return lambda setting: maker(setting, *arguments)
