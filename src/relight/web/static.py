"""Scripts, styles and pictures of our own, kept by browsers until they change."""

from hashlib import blake2b
from mimetypes import guess_type
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
FOREVER = "public, max-age=31536000, immutable"


class Statics:
    """The files of a folder, read once and again when they change."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, bytes, str]] = {}

    def address(self, name: str) -> str:
        """Where a file is, named with a hash of its content: a new one is a new address."""
        return f"/static/{name}?v={self._read(name)[1]}"

    async def answer(self, request: Request) -> Response:
        try:
            content, digest = self._read(request.path_params["name"])
        except FileNotFoundError:
            raise HTTPException(404) from None
        is_named = request.query_params.get("v") == digest
        headers = {"ETag": f'"{digest}"', "Cache-Control": FOREVER if is_named else "no-cache"}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        kind, _ = guess_type(request.path_params["name"])
        return Response(content, headers=headers, media_type=kind or "application/octet-stream")

    def _read(self, name: str) -> tuple[bytes, str]:
        # what is asked for may be any text: only names that stand in the folder are file names
        if name not in self._kept and FOLDER / name not in FOLDER.iterdir():
            raise FileNotFoundError(name)
        path = FOLDER / name
        modified = path.stat().st_mtime_ns
        kept = self._kept.get(name)
        if kept is None or kept[0] != modified:
            content = path.read_bytes()
            kept = (modified, content, blake2b(content, digest_size=8).hexdigest())
            self._kept[name] = kept
        return kept[1:]
