"""Drives an installed Chromium by its DevTools protocol, over a pair of pipes."""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# No network.
_SETTINGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-extensions", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_SECONDS = 60.0
# It reads from 3 and writes to 4.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


def installed() -> str | None:
    """The program, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A headless browser with one page at a time.

    Attributes:
        trouble: messages of the console that are warnings or errors, errors of scripts, and what
            the page asked the network for, since the last `open`.
    """

    def __init__(self, program: str, folder: Path) -> None:
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        ends = [str(read_there), str(write_there)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *ends, program, *_SETTINGS, f"--user-data-dir={folder}"],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._in, self._out = read_here, write_here
        self._buffer, self._number, self._session = b"", 0, ""
        self._loaded = False
        self.trouble: list[str] = []

    def attach(self) -> None:
        """Open a page, and hear what it says."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and return the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(_SECONDS)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self, seconds: float) -> dict[str, Any]:
        """The next message, of which events are noted."""
        until = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self._in, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("Chromium does not answer.")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, said: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.trouble.append(json.dumps(said["exceptionDetails"])[:2000])
        elif event == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning"):
            self.trouble.append(" ".join(str(each.get("value")) for each in said["args"]))
        elif event == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.trouble.append(said["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            url = said["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                self.trouble.append(f"asked for {url}")

    def open(self, path: Path, width: int = 1280, height: int = 900) -> None:
        """Open a file, and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        self.trouble.clear()
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self._loaded:
            self._next(_SECONDS)

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript, or of what it promises."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def close(self) -> None:
        """End the program that was started."""
        self._session = ""
        with suppress(OSError, TimeoutError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)


@contextmanager
def browser(program: str, folder: Path) -> Iterator[Browser]:
    """A browser, which is closed in the end."""
    found = Browser(program, folder)
    try:
        found.attach()
        yield found
    finally:
        found.close()
