"""Draws the table of the built-in kinds' fields from a real API server's OpenAPI documents.

``KUBEBUILDER_ASSETS=... python -m tests.conformance.drawing`` writes it anew; what its words mean
is said in ``harness/twin/apiserver/fieldtable.py``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.twin.apiserver import fieldtable
from harness.twin.apiserver.builtin_kinds import BUILTIN
from tests.conformance.client import Api
from tests.conformance.clusters import NO_ASSETS, assets, real

TABLE = Path(fieldtable.__file__).with_name("builtin_fields.json")
_SCALARS = {"string": "s", "boolean": "b", "integer": "i", "number": "n"}
_TIMES = {"Time": "t", "MicroTime": "u"}
Schemas = Mapping[str, Any]


def schemas(api: Api) -> Schemas:
    """Every schema of the group-versions of the built-in kinds, by its full name."""
    found: dict[str, Any] = {}
    for root in sorted({_root(resource.api_version) for resource in BUILTIN}):
        found |= api.get(f"/openapi/v3/{root}").made["components"]["schemas"]
    return found


def _root(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


class Drawing:
    """The table, as far as it has been drawn."""

    def __init__(self, known: Schemas) -> None:
        self._known = known
        self._full: dict[str, str] = {}
        self.types: dict[str, dict[str, str]] = {}

    def table(self) -> Any:
        """Every built-in kind, and the types it is made of."""
        kinds = {f"{r.api_version}/{r.kind}": self._kind(r.api_version, r.kind) for r in BUILTIN}
        return {"kinds": kinds, "types": self.types}

    def _kind(self, api_version: str, kind: str) -> str:
        group, _, version = api_version.rpartition("/")
        wanted = {"group": group, "version": version, "kind": kind}
        for name, schema in self._known.items():
            if wanted in schema.get("x-kubernetes-group-version-kind", ()):
                return self._type(name).removeprefix("@")
        raise LookupError(f"no schema of {api_version} {kind}")

    def _type(self, full: str) -> str:
        schema, name = self._known[full], full.rpartition(".")[2]
        if "properties" not in schema:
            return _TIMES.get(name, "*")
        if self._full.setdefault(name, full) != full:
            raise LookupError(f"two types are called {name}: {full}, {self._full[name]}")
        if name not in self.types:
            fields = self.types[name] = {}
            if schema.get("x-kubernetes-map-type") == "atomic":
                fields[""] = "!"
            required = schema.get("required", ())
            for field, value in schema["properties"].items():
                listed = field in required and value.get("type") == "array"
                present = "!" if listed or value.get("default") == {} else ""
                fields[field] = self._word(value) + present
        return f"@{name}"

    def _word(self, value: Any) -> str:
        reference = value.get("$ref") or (value["allOf"][0]["$ref"] if "allOf" in value else "")
        if reference:
            return self._type(reference.rpartition("/")[2])
        kind = value.get("type")
        if kind == "array":
            return _around_list(value) + self._inner(value["items"])
        inner = value.get("additionalProperties")
        if kind == "object" and inner is not None:
            atomic = value.get("x-kubernetes-map-type") == "atomic"
            return ("{!}" if atomic else "{}") + self._inner(inner)
        return "y" if value.get("format") == "byte" else _SCALARS.get(kind, "*")

    def _inner(self, value: Any) -> str:
        """What a list or a map holds; a list or a map again is anything."""
        word = self._word(value) if isinstance(value, dict) else "*"
        return "*" if word[0] in "[{" else word


def _around_list(value: Any) -> str:
    kind = value.get("x-kubernetes-list-type", "")
    if kind == "map":
        return f"[{','.join(value['x-kubernetes-list-map-keys'])}]"
    return "[=]" if kind == "set" else "[]"


def written(table: Any) -> str:
    """The table as it is kept: a type a line."""
    kinds = json.dumps(table["kinds"], sort_keys=True, indent=1, separators=(",", ": "))
    types = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(fields, sort_keys=True, separators=(',', ':'))}"
        for name, fields in sorted(table["types"].items())
    )
    return f'{{"kinds":{kinds},\n"types":{{\n{types}\n}}}}\n'


def main() -> int:
    if assets() is None:
        sys.stderr.write(f"{NO_ASSETS}\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        cluster = real(Path(folder))
        try:
            TABLE.write_text(written(Drawing(schemas(cluster.api)).table()))
        finally:
            cluster.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
