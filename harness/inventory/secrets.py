"""Where a secret lies. The inventory names a file or a variable; it never holds the secret."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from harness.inventory.part import Part
from harness.inventory.shapes import HomePath, Variable

HOW = "{file: /absolute/path} or {env: NAME}"

# Order matters: the first that fits names the find. Public ssh keys and hex digests are no secrets.
_SHAPES = (
    ("a PEM block", re.compile(r"-----BEGIN [A-Z0-9 ]+-----")),
    ("a kubeconfig", re.compile(r"client-key-data|certificate-authority-data|kind: *Config\b")),
    ("a JSON web token", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")),
    ("a bearer token", re.compile(r"(?i)\bbearer +[\w.~+/-]{12,}")),
    (
        "an access token",
        re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|AKIA|xox[bap]-)[\w-]{12,}"),
    ),
    ("a bootstrap token", re.compile(r"(?<![\w.])[a-z0-9]{6}\.[a-z0-9]{16}(?![\w.])")),
    ("a URL with a password", re.compile(r"\w+://[^/\s:@]+:[^/\s@]+@")),
    (
        "an encoded secret",
        re.compile(r"(?<!\S)(?![/~])(?![0-9a-f]+$)[A-Za-z0-9+/]{60,}={0,2}(?!\S)"),
    ),
)


_PATHS = re.compile(r"(?:/|~/)[^\n]*")


class SecretUnavailableError(Exception):
    """A secret that the inventory names is not there. Says what was tried and what to do."""


def secret_kind(text: str) -> str | None:
    """What sort of secret ``text`` looks like ("a PEM block"); None when it looks like none."""
    return next((kind for kind, shape in _SHAPES if shape.search(text)), None)


class SecretRef(Part):
    """A secret by reference: exactly one of `file` and `env`; read only when it is used."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["file"]}, {"required": ["env"]}]},
    )

    file: HomePath | None = Field(default=None, description="Path of a file that holds the secret.")
    env: Variable | None = Field(
        default=None, description="Name of the environment variable that holds the secret."
    )

    @model_validator(mode="before")
    @classmethod
    def _no_literal(cls, value: Any) -> Any:
        if not isinstance(value, (Mapping, cls)):
            raise PydanticCustomError("literal_secret", "a literal value instead of a reference")
        return value

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.file is None) == (self.env is None):
            raise ValueError(f"exactly one of the two: {HOW}")
        return self

    @property
    def where(self) -> str:
        """The place in words ("file ~/.kube/lab", "variable LAB_KUBECONFIG"); no secret in it."""
        return f"file {self.file}" if self.file is not None else f"variable {self.env}"

    def resolve(self, environ: Mapping[str, str] | None = None) -> str:
        """The secret itself, read now: the file's text or the variable's value.

        ``environ`` defaults to the process's own. SecretUnavailableError when it is missing,
        unreadable or empty.
        """
        if self.file is not None:
            return _text(self.file, self.where)
        value = (os.environ if environ is None else environ).get(str(self.env), "")
        if not value.strip():
            raise SecretUnavailableError(f"{self.where} is not set: export it before the run")
        return value

    def files(self, environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
        """The files that are meant: `file`, or the paths with ':' between in the variable.

        Empty where the variable holds the secret itself, or nothing.
        """
        if self.file is not None:
            return (Path(self.file).expanduser(),)
        value = _listed((os.environ if environ is None else environ).get(str(self.env), ""))
        if not _PATHS.fullmatch(value):
            return ()
        return tuple(Path(path).expanduser() for path in value.split(":") if path)

    def document(self, environ: Mapping[str, str] | None = None) -> str:
        """As ``resolve``, but a variable may also hold the path of the file that is meant.

        CI systems hand a kubeconfig over either way. A value of one line that starts with ``/``
        or ``~/`` is a path; a kubeconfig never looks like that.
        """
        value = self.resolve(environ)
        if self.env is not None and _PATHS.fullmatch(_listed(value)):
            return _text(_listed(value), f"file named by {self.where}")
        return value


def _listed(value: str) -> str:
    """A list of paths without the empty ones at its ends, as `export A=$A:/b` makes them."""
    return value.strip().strip(":")


def _text(path: str, where: str) -> str:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:  # RuntimeError: no home for ~
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise SecretUnavailableError(
            f"{where} cannot be read ({reason}): put it there, or change the inventory"
        ) from error
    if not text.strip():
        raise SecretUnavailableError(f"{where} is empty: put the secret there")
    return text
