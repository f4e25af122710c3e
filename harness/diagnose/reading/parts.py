"""One part of a file, which one command printed or nobody knows what: objects, tables, text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from harness.diagnose.case import Kind, Text
from harness.diagnose.reading import describing, documents, jsontext, linstortables, rows, tables
from harness.diagnose.reading.asking import Asked, asked_of, filtered, words_of
from harness.diagnose.reading.columns import usual_columns
from harness.diagnose.reading.found import Batch, Found, Seen, Whole
from harness.diagnose.reading.kinds import Known, by_word
from harness.diagnose.reading.recognising import recognised
from harness.diagnose.reading.transcript import Part, inner

_NONE = re.compile(r"No resources found(?: in (?P<namespace>[\w.-]+) namespace)?\.?")
_ERROR = re.compile(
    r"(?:Error from server|error:|Unable to connect|The connection to the server).*"
)
_NOISE = re.compile(r"(?:Warning: |Every \d[\d.]*s: |Defaulted container ).*")
_SELF = re.compile(r"-(?:n|-nodes)[ =]?(?P<nodes>[\w.:-]+)")


@dataclass(frozen=True, slots=True)
class Context:
    """Where a part stands. ``gap``: what follows was left out, so that nothing in it has an end.
    ``place`` is the kubeconfig or context that earlier commands chose."""

    file: str
    hint: tuple[Known, ...] = ()
    gap: bool = False
    place: str = ""


def hint_of(file: str) -> tuple[Known, ...]:
    """The kind that a file's name speaks of ("pods.txt", "get-hr.yaml"), none if several."""
    stem = file.replace(":", "/").rpartition("/")[2].lower()
    words = re.split(r"[^a-z]+", stem.rpartition(".")[0] or stem)
    known = {one for one in map(by_word, words) if one is not None}
    return tuple(known) if len(known) == 1 else ()


def read_part(part: Part, context: Context, found: Found) -> None:
    """Put what a part holds among what was found."""
    if context.gap:
        part = replace(part, closed=False)
    asked = asked_of(part.command)
    batch = found.batch(context.file, (asked.place if asked else "") or context.place)
    _Reader(part, asked, context, batch, found).read()


def read_text(part: Part, context: Context, found: Found) -> None:
    """The same for what can only be text: lines may be missing anywhere in it."""
    batch = found.batch(context.file, context.place)
    _Reader(replace(part, closed=False), None, context, batch, found).text()


def holds_objects(part: Part) -> bool:
    """Whether a part looks as if it held objects, so that no line may be missing in it."""
    text = part.text
    heading = any(tables.headings(line) for line in text.split("\n")[:5])
    return (
        bool(jsontext.BEGIN.match(text.lstrip()))
        or documents.is_yaml(text)
        or describing.is_description(text)
        or heading
    )


class _Reader:
    def __init__(
        self, part: Part, asked: Asked | None, context: Context, batch: Batch, found: Found
    ) -> None:
        self._part = part
        self._asked = asked
        self._context = context
        self._batch = batch
        self._found = found
        self._kinds: tuple[Known, ...] = asked.kinds if asked else ()
        self._strange = False

    def read(self) -> None:
        text = self._part.text
        start = self._begin(text)
        if not text.strip():
            return
        if start is not None:
            self._json(text, start)
        elif documents.is_yaml(text) and not self._is_table(text):
            self._yaml(text)
        elif describing.is_description(text):
            self._descriptions(text)
        else:
            self._plain(text, self._part.line)

    def text(self) -> None:
        self._text(self._part.text, self._part.line)

    def _begin(self, text: str) -> int | None:
        """Where JSON begins: at the first line that is no warning."""
        at = 0
        for line in text.split("\n")[:20]:
            indent = len(line) - len(line.lstrip())
            if jsontext.BEGIN.match(text, at + indent) and line.strip():
                return at + indent
            if line.strip() and not (_NOISE.fullmatch(line) or _ERROR.fullmatch(line)):
                return None
            at += len(line) + 1
        return None

    def _is_table(self, text: str) -> bool:
        first = next((line for line in text.split("\n") if line.strip()), "")
        return bool(tables.headings(first))

    # -- objects

    def _json(self, text: str, start: int) -> None:
        line = self._part.line + text.count("\n", 0, start)
        result = documents.json_documents(text[start:], line)
        if self._logged(result):
            self._text(text, self._part.line)
            return
        self._documents(result)
        for value in result.others:
            self._value(value)
        if result.rest.strip():
            after = self._part.text.rindex(result.rest)
            self._plain(result.rest, self._part.line + text.count("\n", 0, after))

    def _logged(self, result: documents.Documents) -> bool:
        """Whether it is a log, of which every line is JSON."""
        return not result.found and any(
            isinstance(one.value, dict)
            and {"level", "msg", "message", "ts", "time"} & set(one.value)
            for one in result.others
        )

    def _yaml(self, text: str) -> None:
        result = documents.yaml_documents(text, closed=self._part.closed, line=self._part.line)
        self._documents(result)
        if result.rest.strip():
            self._outside(
                [(self._part.line, line) for line in result.rest.split("\n") if line.strip()]
            )

    def _documents(self, result: documents.Documents) -> None:
        for one in result.found:
            self._found.objects.append(Seen(one.obj, one.line, self._batch, one.shown))
        for line, why in result.troubles:
            self._found.tell(f"{self._context.file}:{line}", why)
        self._strange |= bool(result.troubles)
        if len(result.lists) == 1 and not self._strange and not result.rest.strip():
            self._listed(frozenset(self._kinds))

    def _value(self, value: jsontext.Value) -> None:
        text = json.dumps(value.value, indent=1)
        kind = _kind_of_json(value.value)
        if kind is None:
            where = f"{self._context.file}:{value.line}"
            self._found.tell(where, "JSON of which nothing is known")
            return
        self._add(kind, text + "\n", value.line, cut=False)

    def _descriptions(self, text: str) -> None:
        for one in describing.descriptions(text, self._kinds or self._context.hint):
            line = self._part.line + one.line
            if one.trouble:
                self._found.tell(f"{self._context.file}:{line}", one.trouble)
                continue
            self._found.objects.append(Seen(one.obj, line, self._batch, one.shown))
            for below, event in one.events:
                event["metadata"]["name"] = f"{self._context.file}:{line + below}"
                seen = Seen(event, line + below, self._batch, frozenset())
                self._found.objects.append(seen)

    # -- tables and text

    def _plain(self, text: str, line: int) -> None:
        columns = self._columns(text)
        read, outside = tables.tables_of(text, line, columns)
        taken = [table for table in read if self._table(table)]
        if not taken and not any(_NONE.fullmatch(one) for _, one in outside):
            self._text(text, line)
            return
        for table in read:
            if table not in taken:
                self._strange = True
                self._found.tell(
                    f"{self._context.file}:{table.line}",
                    f"a table of a kind that is not known: {' '.join(table.columns)[:80]}",
                )
        self._outside(outside)
        self._whole(taken)

    def _columns(self, text: str) -> tuple[str, ...]:
        """The columns of a table without its heading."""
        asked = self._asked
        if asked is None or asked.headers or len(asked.kinds) != 1:
            return rows.headless(text)
        usual = usual_columns(asked.kinds[0])
        return ("NAMESPACE", *usual) if asked.everywhere and usual else usual

    def _table(self, table: tables.Table) -> bool:
        """Take a table's objects; whether it is one of objects."""
        kinds = self._kinds or self._context.hint
        namespace = self._asked.namespace if self._asked else ""
        made = list(rows.objects_of(table, kinds, namespace, self._context.file))
        if not made and not self._kinds:
            made = list(rows.objects_of(table, (), namespace, self._context.file))
        last = table.rows[-1].line if table.rows else 0
        ended = table.ended or self._part.closed or self._part.text.endswith("\n")
        for line, obj, shown in made:
            if line == last and not ended:
                self._strange = True
                self._found.tell(
                    f"{self._context.file}:{line}", "a row that is cut: it is not used"
                )
                continue
            self._found.objects.append(Seen(obj, line, self._batch, shown))
        for strange in table.strange[:3]:
            self._found.tell(
                f"{self._context.file}:{table.line}", f"a row that fits no column: {strange[:80]!r}"
            )
        self._strange |= bool(table.strange) or len(made) != len(table.rows)
        return bool(made)

    def _outside(self, lines: list[tuple[int, str]]) -> None:
        for line, said in lines:
            if _NONE.fullmatch(said) or _NOISE.fullmatch(said) or said.startswith("#"):
                continue
            self._strange = True
            why = (
                f"an error: {said[:160]}"
                if _ERROR.fullmatch(said)
                else f"not understood: {said[:80]!r}"
            )
            self._found.tell(f"{self._context.file}:{line}", why)

    def _whole(self, taken: list[tables.Table]) -> None:
        """Tell of the kinds that were listed whole, if they were."""
        if self._strange or self._asked is None:
            return
        none = _NONE.search(self._part.text)
        said = self._part.text.rstrip("\n").endswith((".", "found")) if none else False
        if taken and self._part.closed:
            self._listed(frozenset(self._kinds))
        elif none and not taken and said and (self._part.closed or none["namespace"]):
            self._listed(frozenset(self._kinds), none["namespace"] or "")

    def _listed(self, kinds: frozenset[Known], namespace: str = "") -> None:
        asked = self._asked
        if asked is None or not asked.all or (self._part.code or 0) != 0:
            return
        for known in sorted(kinds, key=lambda one: one.kind):
            where = "" if asked.everywhere or not known.namespaced else asked.namespace or namespace
            if where or asked.everywhere or not known.namespaced:
                whole = Whole(known.kind, known.group, where, self._batch, self._part.line)
                self._found.wholes.append(whole)

    def _text(self, text: str, line: int) -> None:
        drawn = linstortables.as_json(text)
        for said, cut in drawn:
            self._add(Kind.LINSTOR, said + "\n", line, cut=cut)
        if drawn:
            return
        command = inner(self._part.command)
        for one in recognised(text, command, self._context.file.lower()):
            cut = one.cut or self._context.gap or filtered(self._part.command)
            self._add(one.kind, one.text, line + one.line, cut=cut)
            if one.kind is Kind.UNKNOWN:
                where = f"{self._context.file}:{line}"
                self._found.tell(where, f"not recognised: {_first_line(text)!r}")

    def _add(self, kind: Kind, text: str, line: int, *, cut: bool) -> None:
        source = f"{self._context.file}:{line}" if line > 1 else self._context.file
        node = _log_asked(self._part.command) or self._part.host or _node_asked(self._part.command)
        self._found.texts.append((Text(kind, text, source, node, cut=cut), self._batch))


def _node_asked(command: str) -> str:
    """The one node that ``talosctl -n`` was told."""
    found = _SELF.search(command) if "talosctl" in command else None
    return found["nodes"] if found else ""


def _log_asked(command: str) -> str:
    """Whose log ``kubectl logs`` was asked for, as "namespace/pod/container" with what is told."""
    words = words_of(command.partition("|")[0])
    if "logs" not in words[1:]:
        return ""
    options, rest = {}, []
    pending = words[1:]
    while pending:
        word = pending.pop(0)
        if word in ("-n", "--namespace", "-c", "--container") and pending:
            options[word.lstrip("-")[0]] = pending.pop(0)
        elif not word.startswith("-") and word != "logs":
            rest.append(word.rpartition("/")[2])
    told = (options.get("n", ""), *rest[:1], options.get("c", "") or "".join(rest[1:2]))
    return "/".join(one for one in told if one)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.split("\n") if line.strip()), "")[:80]


def _kind_of_json(value: object) -> Kind | None:
    """What JSON is that is no Kubernetes object, by the keys that LINSTOR and DRBD use."""
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    items = value if isinstance(value, list) else [value]
    keys = [set(one) for one in items if isinstance(one, dict)]
    if not keys or len(keys) != len(items):
        return None
    if all({"name", "devices", "connections"} <= one for one in keys):
        return Kind.DRBD
    signs = (
        {"storage_pool_name"},
        {"connection_status"},
        {"node_name", "name"},
        {"net_interfaces"},
    )
    more = ({"error_time"}, {"rest_api_version"})
    if all(any(sign <= one for sign in (*signs, *more)) for one in keys):
        return Kind.LINSTOR
    return None
