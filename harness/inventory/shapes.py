"""The written forms of an inventory's values: durations, sizes, names, versions, ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_DURATION = r"(?=[0-9])(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?"
_QUANTITY = r"([1-9][0-9]{0,15})(Ki|Mi|Gi|Ti|k|M|G|T)?"
_FACTORS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


class _Written(str):
    """A string of one shape that also has a meaning; it is dumped as it was written."""

    __slots__ = ()
    _pattern = ""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: Any, _handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.str_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{cls._pattern})$"}


class Duration(_Written):
    """A length of time with its units: ``90s``, ``29m``, ``2h``, ``1h30m``; never zero."""

    __slots__ = ()
    _pattern = _DURATION

    def __new__(cls, text: str) -> Self:
        """Read ``text``; ValueError when it has no unit, another unit, or is zero."""
        if not re.fullmatch(_DURATION, text) or not _seconds(text):
            raise ValueError("a duration with its unit, longer than zero: 90s, 29m, 2h or 1h30m")
        return super().__new__(cls, text)

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return float(_seconds(self))


class Quantity(_Written):
    """An amount of bytes as Kubernetes writes it: ``20Gi`` (2^30) or ``20G`` (10^9)."""

    __slots__ = ()
    _pattern = _QUANTITY

    def __new__(cls, text: str) -> Self:
        """Read ``text``; ValueError when it is no whole, positive amount."""
        if not re.fullmatch(_QUANTITY, text):
            raise ValueError("a size in bytes such as 20Gi (2^30) or 20G (10^9), whole, above zero")
        return super().__new__(cls, text)

    @property
    def bytes(self) -> int:
        """The amount in bytes."""
        found = re.fullmatch(_QUANTITY, self)
        assert found is not None
        return int(found[1]) * _FACTORS[found[2] or ""]


def _seconds(text: str) -> int:
    found = re.fullmatch(_DURATION, text)
    assert found is not None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


@dataclass(frozen=True, slots=True)
class Shape:
    """Text that must match ``pattern`` whole; ``must`` says so in words."""

    pattern: str
    must: str

    def check(self, text: str) -> str:
        """``text`` itself; ValueError with ``must`` when it has another shape."""
        if not re.fullmatch(self.pattern, text):
            raise ValueError(self.must)
        return text

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$"}


Count = Annotated[int, Field(strict=True, ge=1, le=1000)]
"""A whole number from 1."""

Guest = Annotated[int, Field(strict=True, ge=1, le=3)]
"""A number of QEMU guests: three at most, as many as the switch between them has ports."""

Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
"""A TCP port."""

Rate = Annotated[int, Field(strict=True, ge=0, le=100_000)]
"""Requests a second, a whole number; 0 is no limit."""

Flag = Annotated[bool, Field(strict=True)]
"""``true`` or ``false``, nothing else."""

Words = Annotated[str, Shape(r"[\s\S]*\S[\s\S]*", "some text")]
"""Free text that says something."""

Name = Annotated[
    str,
    Shape(
        r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?",
        "lowercase letters, digits and '-', not at an end, at most 63 (a DNS label)",
    ),
]
"""A name that Kubernetes accepts as a DNS label."""

TenantNamespace = Annotated[
    str,
    Shape(
        r"tenant-[a-z0-9](?:[a-z0-9-]{0,54}[a-z0-9])?",
        "a tenant's namespace: 'tenant-' and a name, such as tenant-hil",
    ),
]
"""The namespace of a Cozystack tenant (objects.md section 2)."""

ClassName = Annotated[
    str,
    Shape(
        r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?",
        "lowercase letters, digits, '-' and '.', such as u1.medium or replicated",
    ),
]
"""The name of a StorageClass or an instance type."""

SchematicId = Annotated[
    str,
    Shape(r"[0-9a-f]{64}", "64 lowercase hexadecimal digits, as the image factory prints them"),
]
"""A Talos image-factory schematic: sha256 of its YAML."""

Sha256 = Annotated[
    str, Shape(r"[0-9a-f]{64}", "64 lowercase hexadecimal digits, as `sha256sum` prints them")
]
"""The SHA-256 of a file."""

TalosVersion = Annotated[
    str,
    Shape(r"v[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?", "a Talos release such as v1.13.6"),
]
"""vMAJOR.MINOR.PATCH with an optional suffix (S-OSI, clone_path.md section 3, R3)."""

KubernetesVersion = Annotated[
    str, Shape(r"v1\.[0-9]{1,3}", "a Kubernetes minor release such as v1.35")
]
"""vMAJOR.MINOR, as ``KubernetesNodes.spec.version`` takes it (objects.md section 2.1)."""

ResourceName = Annotated[
    str,
    Shape(
        r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?",
        "an extended resource such as nvidia.com/AD102GL_L40S, from the host Node's allocatable",
    ),
]
"""The extended resource under which a management Node offers the card."""

PciId = Annotated[
    str,
    Shape(
        r"[0-9a-f]{4}:[0-9a-f]{4}", "PCI vendor:device in lowercase hexadecimal, such as 10de:26b9"
    ),
]
"""PCI vendor and device, as ``lspci -n`` prints them."""

ModuleName = Annotated[
    str, Shape(r"[a-z0-9_-]+", "a kernel module: lowercase letters, digits, '_' and '-'")
]
"""What the chart accepts as a module name (S-KM, gpu_path.md section 1.1)."""

ModuleParameter = Annotated[
    str,
    Shape(
        r"(?:(?![$`\\'\"])[!-~])+",
        "printable ASCII without spaces, quotes, '$', '`' or '\\', such as NVreg_NvLinkDisable=1",
    ),
]
"""What the chart accepts as a module parameter (S-KM, gpu_path.md section 1.1)."""

HostKey = Annotated[
    str,
    Shape(r"SHA256:[A-Za-z0-9+/]{43}", "a fingerprint as `ssh-keygen -lf` shows it: SHA256:..."),
]
"""The fingerprint of an SSH host key."""

Image = Annotated[str, Shape(r"[A-Za-z0-9][^\s]*", "a container image reference without spaces")]
"""A container image reference."""

Url = Annotated[str, Shape(r"https?://[^\s]+", "an http:// or https:// URL")]
"""An address over HTTP."""

Variable = Annotated[
    str,
    Shape(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable, such as LAB_KUBECONFIG"),
]
"""The name of an environment variable."""

HomePath = Annotated[
    str, Shape(r"(?:/|~/)[^\n]*", "an absolute path, or one that starts with '~/'")
]
"""A path that means the same wherever the run is started."""
