"""Debian's chromium for tests, installed where that can be done."""

import os
import shutil
import subprocess
import sys
from functools import cache

NAMES = ("chromium", "chromium-browser", "google-chrome")
# without letters a page has no width to speak of
PACKAGES = ("chromium", "fonts-liberation")
INSTALL_SECONDS = 300
# another program may install packages just now
WAIT = "DPkg::Lock::Timeout=240"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@cache
def find_chromium() -> tuple[str | None, str]:
    """The browser's program, or None and why there is none."""
    if found := _look():
        return found, ""
    apt = shutil.which("apt-get")
    if sys.platform != "linux" or apt is None or os.geteuid() != 0:
        return None, "there is no chromium, and it can only be installed by root with apt-get"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["install", "-y", "--no-install-recommends", *PACKAGES]
    for command in ([apt, "-o", WAIT, "update"], [apt, "-o", WAIT, *install]):
        try:
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"`{' '.join(command)}` took longer than {INSTALL_SECONDS} seconds"
        if done.returncode:
            last = done.stderr.strip().rsplit("\n", 1)[-1]
            return None, f"`{' '.join(command)}` failed: {last}"
    found = _look()
    return found, "" if found else "chromium was installed, and is not there"


def _look() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)
