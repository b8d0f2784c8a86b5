"""A headless Chromium that tests drive through its debugging pipe: no further package, no port."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--remote-debugging-pipe",
)
TIMEOUT = 30
#: The browser reads commands from descriptor 3 and answers on 4.
LAUNCH = """import fcntl, os, sys
for target, source in enumerate([fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]], 3):
    os.dup2(source, target)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str | None:
    """The path of a Chromium or Chrome, None if there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One tab. What went wrong in it, on the console or on the network, is in `complaints` and `requests`."""

    def __init__(self, profile: Path) -> None:
        command_read, self._write = os.pipe()
        self._read, answer_write = os.pipe()
        started = [sys.executable, "-c", LAUNCH, str(command_read), str(answer_write)]
        command = [*started, program() or "chromium", *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(command_read, answer_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(command_read)
        os.close(answer_write)
        self._buffer, self._count = b"", 0
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None
        page = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]
            self._events.append(answer)

    def open(self, path: Path, *, width: int, height: int = 844, dark: bool = False, script: bool = True) -> None:
        """Load a file in a window of that size, in CSS pixels, and wait until it is there."""
        self._events.clear()
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.send("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._receive())

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key and let it go."""
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": text}
        self.send("Input.dispatchKeyEvent", type="keyDown", **pressed)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    @property
    def complaints(self) -> list[Any]:
        """What was written on the console, thrown, or logged by the browser since the page was opened."""
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self._events if event.get("method") in names]

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for since it was opened, its own first."""
        sent = (event for event in self._events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def close(self) -> None:
        """End the browser and wait for it."""
        self._process.terminate()
        self._process.wait(TIMEOUT)
        os.close(self._write)
        os.close(self._read)

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has gone"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)
