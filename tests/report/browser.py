"""A real browser that opens a page and says what it asked the network for and complained of."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import websocket

from harness.clock import WallClock

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 120.0


def installed() -> str:
    """The browser of this machine, "" where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), "")


@dataclass
class Page:
    """What came of opening a page. ``asked`` are the addresses beside the page's own."""

    text: str = ""
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def _running(program: str, profile: Path) -> Iterator[str]:
    argv = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    argv += ["--remote-debugging-port=0", "--disable-background-networking", "--disable-sync"]
    argv += ["--disable-component-update", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [*argv, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        marker = "DevTools listening on "
        line = next((one for one in process.stderr if one.startswith(marker)), "")
        assert line, "the browser ended before it listened"
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        yield line.removeprefix(marker).strip()
    finally:
        process.terminate()
        process.wait(20)


class _Session:
    """A page of the browser, driven over its DevTools protocol."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(
            address, timeout=PATIENCE, suppress_origin=True, max_size=None
        )
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        told = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = told["sessionId"]

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        sent = {"id": self._number, "method": method, "params": params}
        self._socket.send(
            json.dumps(sent | ({"sessionId": self._session} if self._session else {}))
        )
        while True:
            told = json.loads(self._socket.recv())
            if told.get("id") == self._number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result
            self.events.append(told)

    def says(self) -> str:
        told = self.ask("Runtime.evaluate", expression="document.body.innerText")
        return str(told["result"].get("value", ""))

    def close(self) -> None:
        self._socket.close()


def opened(page: Path, profile: Path, *words: str) -> Page:
    """Open a file and wait until it shows these words."""
    clock, never = WallClock(), threading.Event()
    with _running(installed(), profile) as address:
        session = _Session(address)
        for domain in ("Network", "Runtime", "Log", "Page"):
            session.ask(f"{domain}.enable")
        url = page.resolve().as_uri()
        session.ask("Page.navigate", url=url)
        deadline = clock.deadline(PATIENCE)
        text = session.says()
        while not all(word in text for word in words):
            assert not deadline.expired, f"{words} are not shown, but: {text[:2000]}"
            clock.back_off(0.1, never)
            text = session.says()
        events = session.events
        session.close()
    found = Page(text)
    for event in events:
        _note(event, url, found)
    return found


def _note(event: dict[str, Any], url: str, page: Page) -> None:
    params = event.get("params", {})
    if event.get("method") == "Network.requestWillBeSent":
        asked = params["request"]["url"]
        if not asked.startswith(("data:", "blob:", url)):
            page.asked.append(asked)
    elif event.get("method") == "Runtime.exceptionThrown":
        page.complaints.append(json.dumps(params["exceptionDetails"]))
    elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] == "error":
        page.complaints.append(json.dumps(params["args"]))
    elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
        page.complaints.append(params["entry"]["text"])
