"""Other tools that read the same logs, installed apart from Relight's own environment."""

import shutil
import subprocess
import sys
from pathlib import Path

from bench.measure import ROOT

PEERS = ROOT / ".tools" / "peers"
AGENTSVIEW = "agentsview==0.46.1"
CCUSAGE = "@ccusage/ccusage-linux-x64@20.0.24"


def find_agentsview() -> Path | None:
    program = PEERS / "agentsview" / "bin" / "agentsview"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS / "agentsview")], check=True)
        pip = [str(PEERS / "agentsview" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        if subprocess.run([*pip, AGENTSVIEW], check=False).returncode:
            return None
    return program


def find_ccusage() -> Path | None:
    """ccusage's own binary; npm leaves it without its run bit."""
    program = PEERS / "npm" / "node_modules" / CCUSAGE.rsplit("@", 1)[0] / "bin" / "ccusage"
    if not program.exists():
        if shutil.which("npm") is None:
            return None
        install = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix"]
        if subprocess.run([*install, str(PEERS / "npm"), CCUSAGE], check=False).returncode:
            return None
    program.chmod(0o755)
    return program
