"""Writing a file so that a reader sees the old text or the new, never half of one."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

from harness.report.redact import redact_data

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def is_the_disks(refused: OSError) -> bool:
    """Whether a disk cannot take what is written; else the place that was named is none to write
    to: a file in a folder's place, somebody else's, a name that is too long.
    """
    return refused.errno in _DISK


def write_bytes(path: Path, data: bytes) -> Path:
    """Put ``data`` at ``path`` by rename; the folder is made. OSError when the disk refuses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # of one's own: two processes of a run may write the same file, named by its content, at once
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.draft")
    draft.write_bytes(data)
    return draft.replace(path)


def write_json(path: Path, value: Any) -> Path:
    """Write ``value`` redacted, as indented ASCII JSON with a final newline."""
    text = json.dumps(redact_data(value), indent=2, allow_nan=False)
    return write_bytes(path, f"{text}\n".encode("ascii"))
