"""What can keep the mini-lab from being built or run, in one sentence each."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from harness.reach.errors import LabError

NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_OF_DISKS = NO_ROOM | {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EEXIST, errno.ENOTEMPTY),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
}
"""What a disk, or who may write where on it, refuses with. Any other error may be a bug."""


class Unfit(LabError):
    """This machine cannot hold the mini-lab as it stands; ``do`` says what would change that."""


class Misnamed(Unfit):
    """Somebody named a guest or a snapshot that there is not: the user's mistake, not the lab's."""


@contextmanager
def told_by_disk(tried: str, elsewhere: str) -> Iterator[None]:
    """Turn what the disk refuses while something is written to it into `Unfit`; ``elsewhere`` says
    how to name another place."""
    try:
        yield
    except OSError as refused:
        if refused.errno not in _OF_DISKS:
            raise
        named = f" ({refused.filename})" if refused.filename else ""
        full = refused.errno in NO_ROOM
        saw = f"{'no room: ' if full else ''}{refused.strerror}{named}"
        do = "free some (`hil clean`)" if full else "see that it can be written"
        raise Unfit(tried, saw, f"{do}, or {elsewhere}") from refused
