from __future__ import annotations

import io
import tarfile

from harness.qemulab.probe import probe_image


def test_the_image_holds_busybox_and_no_driver() -> None:
    image = probe_image(b"busybox", ["bin/sh\n", "usr/bin/env", "bin/busybox", ""])
    with tarfile.open(fileobj=io.BytesIO(image)) as archive:
        names = archive.getnames()
        content = archive.extractfile("bin/busybox")
        assert content is not None
        assert content.read() == b"busybox"
        assert archive.getmember("bin/sh").linkname == "busybox"
        assert archive.getmember("bin/env").issym()
    assert len(names) == len(set(names))
    assert not any("nvidia" in name for name in names)
