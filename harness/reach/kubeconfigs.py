"""Kubeconfig documents: read from files or text, merged, and one context chosen from them.

The rules are kubectl's: of several files the first to name a thing wins, and a relative path counts
from the file that it stands in (Kubernetes docs, "Organizing Cluster Access Using kubeconfig
Files"). An empty value is none. The official client resolves paths so too, but takes an absent
`server` for localhost and an absent user for an anonymous one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.reach.errors import KubeconfigMissing, KubeconfigUnreadable, NoSuchContext

Section = dict[str, Any]

_NAMED = {"contexts": "context", "clusters": "cluster", "users": "user"}
_PATHS = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}
_REPAIR = "repair the kubeconfig"


@dataclass(frozen=True, slots=True)
class Entry:
    """One context: its cluster and its user section as written, with absolute paths.

    ``tried`` is what messages say was being done ("read the kubeconfig /home/me/lab").
    """

    cluster: Section
    user: Section
    tried: str


def from_files(paths: Sequence[Path], context: str = "") -> Entry:
    """One context of the files; "" is the current one.

    Of several files those that are missing are passed over, as kubectl does with KUBECONFIG.
    Raises KubeconfigMissing, KubeconfigUnreadable or NoSuchContext.
    """
    tried = f"read the kubeconfig {':'.join(map(str, paths))}"
    found = [path for path in paths if path.exists()] or list(paths[:1])
    documents = [_absolute(_parse(_text(path, tried), tried), path.parent) for path in found]
    return _entry(_merged(documents), context, tried)


def from_text(text: str, context: str = "", *, source: str = "kubeconfig") -> Entry:
    """One context of a kubeconfig's text; ``source`` names where it came from, for messages.

    Relative paths count from the working directory. Raises KubeconfigUnreadable or NoSuchContext.
    """
    tried = f"read the kubeconfig from {source}"
    return _entry(_merged([_absolute(_parse(text, tried), Path.cwd())]), context, tried)


def outward(entry: Entry) -> tuple[str, ...]:
    """What makes the runner open a file or start a program: no Secret of a lab may ask for that."""
    named = [key for key in _PATHS["cluster"] if key in entry.cluster]
    return (*named, *(key for key in (*_PATHS["user"], "exec") if key in entry.user))


def _text(path: Path, tried: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise KubeconfigMissing(tried, "no such file", "name an existing file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigUnreadable(tried, str(error), "make it a readable text file") from error


def _parse(text: str, tried: str) -> Section:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise KubeconfigUnreadable(tried, _problem(error), "make it valid YAML") from error
    if not isinstance(found, dict) or not isinstance(found.get("contexts"), list):
        saw = "a document without a list of contexts"
        raise KubeconfigUnreadable(tried, saw, "name a kubeconfig")
    return found


def _problem(error: yaml.YAMLError) -> str:
    """What is wrong where, without what stands there: it may be a token."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    problem = re.sub(r"'[^']{3,}'", "(withheld)", str(error.problem))
    return f"{problem} (line {error.problem_mark.line + 1})"


def _absolute(document: Section, directory: Path) -> Section:
    """The document with the paths of its clusters, users and plugins made absolute."""
    for table, key in _NAMED.items():
        for section in _sections(document, table).values():
            for name in _PATHS.get(key, ()):
                if isinstance(section.get(name), str) and section[name]:
                    section[name] = str(directory.absolute() / section[name])
            plugin = section.get("exec")
            command = plugin.get("command") if isinstance(plugin, dict) else None
            if isinstance(plugin, dict) and isinstance(command, str) and "/" in command:
                plugin["command"] = str(directory.absolute() / command)
    return document


def _sections(document: Section, table: str) -> dict[str, Section]:
    """The table's sections by name, an absent one empty; what is no section is passed over."""
    listed = document.get(table)
    found: dict[str, Section] = {}
    for item in listed if isinstance(listed, list) else []:
        section = (item.get(_NAMED[table]) or {}) if isinstance(item, dict) else None
        if isinstance(section, dict):
            found.setdefault(str(item.get("name")), section)
    return found


def _merged(documents: Sequence[Section]) -> Section:
    """Tables by name; the first document to name a thing wins."""
    merged: Section = {table: {} for table in _NAMED}
    for document in documents:
        for table in _NAMED:
            merged[table] = _sections(document, table) | merged[table]
    current = (str(document.get("current-context") or "") for document in documents)
    return merged | {"current-context": next(filter(None, current), "")}


def _entry(merged: Section, context: str, tried: str) -> Entry:
    chosen = merged["contexts"][_choose(merged, context, tried)]
    user = str(chosen.get("user") or "")
    cluster = _named(merged, "clusters", str(chosen.get("cluster") or ""), tried)
    if not isinstance(cluster.get("server"), str) or not cluster["server"]:
        saw = f"cluster {chosen.get('cluster')!r} without a server"
        raise KubeconfigUnreadable(tried, saw, _REPAIR)
    if re.search(r"//[^/]*@", cluster["server"]):
        saw = f"cluster {chosen.get('cluster')!r} with a user or password in its server's address"
        raise KubeconfigUnreadable(tried, saw, "name the user in the kubeconfig's users")
    return Entry(cluster, _named(merged, "users", user, tried) if user else {}, tried)


def _named(merged: Section, table: str, name: str, tried: str) -> Section:
    found: Section | None = merged[table].get(name)
    if found is None:
        saw = f"a context with the {_NAMED[table]} {name!r}, which is not in it"
        raise KubeconfigUnreadable(tried, saw, _REPAIR)
    return {key: value for key, value in found.items() if value not in ("", None)}


def _choose(merged: Section, context: str, tried: str) -> str:
    names = list(merged["contexts"])
    wanted = context or str(merged["current-context"])
    if wanted in names:
        return wanted
    if not wanted:
        raise NoSuchContext(tried, "no current-context", f"name one of: {_listed(names)}")
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
    do = f"did you mean {near[0]!r}?" if near else f"name one of: {_listed(names)}"
    raise NoSuchContext(tried, f"no context {wanted!r} in it", do)


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(names)) or "(the file has none)"
