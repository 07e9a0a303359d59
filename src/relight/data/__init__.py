"""Tables that people edit: prices, usage, failures, verdicts, admissions, secrets, recipes …"""

from pathlib import Path


def read_data(name: str) -> str:
    """Return the text of a file in this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
