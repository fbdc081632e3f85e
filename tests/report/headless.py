"""A headless Chromium, controlled over its debugging pipe (DevTools protocol) without any
package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def found() -> str | None:
    """The path of an installed browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Tab:
    """A page of a given size; ``complaints`` has the errors and warnings of its console."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = os.fdopen(write, "wb", 0), os.fdopen(read, "rb", 0)
        self._number, self._buffer, self._session = 0, b"", ""
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []

    def open(
        self, page: Path, width: int, height: int = 844, scheme: str = "light", part: str = ""
    ) -> None:
        """Load ``page`` and jump to ``part``, its fragment; ``scheme`` is light or dark."""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2, mobile=True,
        )  # fmt: skip
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self._events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri() + part)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._take()

    def evaluate(self, script: str) -> Any:
        """The value of ``script``, as JSON; for a promise, the value to which it resolves."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, x: float, y: float) -> None:
        """Move the pointer to a place of the window, in its pixels."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _take(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = self._read.read(1 << 16)
            assert chunk, "the browser is gone"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
            if message["method"] in ("Runtime.exceptionThrown", "Log.entryAdded") or (
                message["method"] == "Runtime.consoleAPICalled"
                and message["params"]["type"] in ("error", "warning")
            ):
                self.complaints.append(json.dumps(message["params"]))
        return message


@contextmanager
def tab(browser: str, home: Path) -> Iterator[Tab]:
    """A tab, with a browser that ends with it and keeps its files in ``home``."""
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    # The browser puts a socket here; pytest's paths may be too long for one.
    scratch = tempfile.TemporaryDirectory(dir="/tmp")
    process = subprocess.Popen(
        [
            "bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash",
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={home}",
        ],
        pass_fds=(to_browser, from_browser),
        env=os.environ | {"TMPDIR": scratch.name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_browser)
    os.close(from_browser)
    opened = Tab(write, read)
    try:
        yield opened
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        opened._write.close()
        opened._read.close()
        scratch.cleanup()
