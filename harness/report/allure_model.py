"""What Allure's result files hold, as far as this project writes them: results, steps, files.

The form is that of Allure's model 2 as allure-python-commons 2.16 writes it; how both renderers
read it was measured (lab/reporting.md sections 1.4 to 1.7).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.report.records import visible

_NAMESPACE = uuid.UUID("6d2f0f0a-52bb-5a0c-9a3b-0c1f5f7a9e11")
PASSED, FAILED, BROKEN, SKIPPED = "passed", "failed", "broken", "skipped"
MOST_BYTES = 5 * 1024 * 1024
"""Of one attachment: what is longer is kept by its head and tail."""

TEXT, JSON, CSV, HTML, SVG = (
    "text/plain",
    "application/json",
    "text/csv",
    "text/html",
    "image/svg+xml",
)
_ENDINGS: Mapping[str, str] = {TEXT: "txt", JSON: "json", CSV: "csv", HTML: "html", SVG: "svg"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file beside a result. ``name`` is for people; ``mime`` one of the types above decides how
    it is shown.
    """

    name: str
    body: bytes
    mime: str = TEXT

    @property
    def file(self) -> str:
        """Its file's name: that of its content, so that the same text is there once."""
        return f"{hashlib.sha256(self.body).hexdigest()[:32]}-attachment.{self._ending}"

    @property
    def _ending(self) -> str:
        return _ENDINGS.get(self.mime, "attach")

    def document(self) -> dict[str, Any]:
        """How a result names it."""
        return {"name": visible(self.name), "source": self.file, "type": self.mime}


def attached(name: str, text: str, mime: str = TEXT) -> Attachment:
    """A text as an attachment, cut to `MOST_BYTES` where it is longer."""
    return Attachment(name, cut(text.encode("utf-8", "backslashreplace")), mime)


def cut(body: bytes) -> bytes:
    """The head and tail of a body that is longer than `MOST_BYTES`, with what was left out."""
    left_out = len(body) - MOST_BYTES
    if left_out <= 0:
        return body
    half = MOST_BYTES // 2
    return body[:half] + f"\n[... {left_out} bytes left out ...]\n".encode() + body[-half:]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a scenario, between two of the lab's moments (epoch seconds)."""

    name: str
    start: float
    stop: float
    status: str = PASSED
    message: str = ""
    steps: Sequence[Step] = ()
    attachments: Sequence[Attachment] = ()

    def document(self) -> dict[str, Any]:
        """The step as a result holds it."""
        told = {"statusDetails": {"message": visible(self.message)}} if self.message else {}
        return {
            "name": visible(self.name),
            "status": self.status,
            **told,
            "stage": "finished",
            "steps": [step.document() for step in self.steps],
            "attachments": [one.document() for one in self.attachments],
            "start": millis(self.start),
            "stop": millis(self.stop),
        }

    def files(self) -> list[Attachment]:
        """Every attachment of it and of the steps in it."""
        return [*self.attachments, *(one for step in self.steps for one in step.files())]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a result; one that is ``excluded`` does not make another test of it."""

    name: str
    value: str
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """A scenario's result. ``key`` tells it from all others of every run; ``identity`` is what
    its history goes by, beside the parameters that are not excluded.
    """

    key: Sequence[object]
    name: str
    full_name: str
    status: str
    message: str
    start: float
    stop: float
    description: str = ""
    labels: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()
    parameters: Sequence[Parameter] = ()
    steps: Sequence[Step] = ()
    attachments: Sequence[Attachment] = ()
    identity: Sequence[object] = ()

    @property
    def uuid(self) -> str:
        """Its name among result files: the same each time it is built."""
        return unique(*self.key)

    @property
    def test_case_id(self) -> str:
        """What Allure 3 makes its own id of, beside the parameters: an attempt after another has
        one of its own, else it would hide the first as its retry.
        """
        return digest(":".join((self.full_name, *map(str, self.identity))))

    @property
    def history_id(self) -> str:
        """What ties it to the same test of other runs."""
        named = [[one.name, one.value] for one in self.parameters if not one.excluded]
        return digest(json.dumps([self.full_name, named, *self.identity]))

    def document(self) -> dict[str, Any]:
        """The content of its result file."""
        return {
            "uuid": self.uuid,
            "name": visible(self.name),
            "fullName": self.full_name,
            "testCaseId": self.test_case_id,
            "historyId": self.history_id,
            "description": visible(self.description),
            "status": self.status,
            "statusDetails": {"message": visible(self.message)} if self.message else {},
            "stage": "finished",
            "start": millis(self.start),
            "stop": millis(self.stop),
            "labels": [{"name": name, "value": visible(text)} for name, text in self.labels],
            "links": [{"type": "link", "name": name, "url": url} for name, url in self.links],
            "parameters": [_parameter(one) for one in self.parameters],
            "steps": [step.document() for step in self.steps],
            "attachments": [one.document() for one in self.attachments],
        }

    def files(self) -> list[Attachment]:
        """Every attachment of it and of its steps."""
        return [*self.attachments, *(one for step in self.steps for one in step.files())]


@dataclass(frozen=True, slots=True)
class Container:
    """What was done before and after several results: a pool's bring-up and take-down."""

    key: Sequence[object]
    children: Sequence[str]
    befores: Sequence[Step] = field(default=())
    afters: Sequence[Step] = field(default=())

    @property
    def uuid(self) -> str:
        """Its name among container files."""
        return unique("container", *self.key)

    def document(self) -> dict[str, Any]:
        """The content of its container file."""
        around = [*self.befores, *self.afters]
        return {
            "uuid": self.uuid,
            "children": list(self.children),
            "befores": [one.document() for one in self.befores],
            "afters": [one.document() for one in self.afters],
            "start": millis(min((one.start for one in around), default=0.0)),
            "stop": millis(max((one.stop for one in around), default=0.0)),
        }

    def files(self) -> list[Attachment]:
        """Every attachment of its steps."""
        return [one for step in (*self.befores, *self.afters) for one in step.files()]


def unique(*key: object) -> str:
    """A UUID that is the same for the same key."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps(list(key))))


def digest(text: str) -> str:
    """The hash that Allure goes by."""
    return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def millis(at: float) -> int:
    """Epoch seconds as Allure counts."""
    return round(at * 1000)


def _parameter(one: Parameter) -> dict[str, Any]:
    told: dict[str, Any] = {"name": one.name, "value": visible(one.value)}
    return told | ({"excluded": True} if one.excluded else {})
