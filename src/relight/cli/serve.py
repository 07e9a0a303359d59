import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relight.cli.options import current_home, relight_command
from relight.config import find_home, read_config
from relight.errors import RelightError
from relight.locks import read_secret

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

PORT = 7717
HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost", "::1")
SHORTEST_TOKEN = 16
BACKLOG = 128
END_SECONDS = 5.0
OTLP_PORT = 4318  # the port of OTLP over HTTP, which exporters use by default


@relight_command("serve", example="relight serve --open")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port; 0 is any that is free.",
)
@click.option("--host", default=HOST, show_default=True, help="The address to serve on.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Require the secret in this file (default: RELIGHT_TOKEN or [serve] token).",
)
@click.option("--team", "is_team", is_flag=True, help="Let machines of members push here.")
@click.option(
    "--tls-proxy",
    metavar="HOST",
    help="With --team: the name of the proxy before it that terminates TLS.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open it in your browser.")
@click.option("--no-watch", is_flag=True, help="Do not import what is new while it runs.")
@click.option(
    "--otlp",
    "otlp_port",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=OTLP_PORT,
    metavar="[PORT]",
    help=f"Also receive telemetry on 127.0.0.1, on port {OTLP_PORT} if none is named.",
)
def command(token_file: Path | None, no_watch: bool, **given: Any) -> None:
    """Serve the dashboard and its JSON API to a browser on this machine.

    It reads the agents' folders as they grow: a new turn is shown within two seconds.
    Nothing is loaded from outside. Other machines are served only if a token is set. The address
    is the first line of the output. Ctrl-C ends it.

    With --team other machines push their record to it, and every request needs the token of a
    member. It speaks plain HTTP, so it is for this machine alone unless a proxy is named.
    """
    if given["tls_proxy"] and not given["is_team"]:
        raise click.UsageError("--tls-proxy goes with --team")
    token = read_secret(token_file) if token_file else None
    serve(current_home(), token=token, is_watching=not no_watch, **given)


def serve(
    home: str | Path | None,
    *,
    host: str,
    port: int,
    token: str | None = None,
    is_opened: bool = False,
    is_watching: bool = True,
    otlp_port: int | None = None,
    is_team: bool = False,
    tls_proxy: str | None = None,
) -> None:
    """Serve until interrupted; the address is the first line of the output."""
    config = read_config(find_home(home))
    token = token or os.environ.get("RELIGHT_TOKEN") or config.serve.token
    is_loopback = host in LOOPBACK
    if is_team:
        check_team(host, tls_proxy, is_loopback=is_loopback)
    elif not is_loopback:
        check_token_length(host, token)
    with listen(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listening.getsockname()[1]}/"
        click.echo(address)
        click.echo("Ctrl-C ends it")
        if is_opened:
            open_browser(address.replace("//0.0.0.0:", f"//{HOST}:").replace("//[::]:", "//[::1]:"))

        from relight.web.app import create_app

        app = create_app(
            home,
            token=token,
            hosts=[*config.serve.hosts, *([tls_proxy] if tls_proxy else [])],
            is_loopback=is_loopback,
            is_watching=is_watching and config.auto_import,
            is_team=is_team,
        )
        with nullcontext() if otlp_port is None else receiving(home, otlp_port):
            run_app(app, listening)


@contextmanager
def receiving(home: str | Path | None, port: int) -> Iterator[None]:
    """Receive telemetry beside the dashboard, in a thread with its own event loop."""
    import threading

    with listen(HOST, port) as listening:
        click.echo(f"telemetry: http://{HOST}:{listening.getsockname()[1]}/")

        from relight.web.otlp import create_receiver

        server = make_server(create_receiver(home))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(END_SECONDS)


def run_app(app: "ASGIApp", listening: socket.socket) -> None:
    """Serve an application until interrupted."""
    import asyncio

    from relight.web.connections import TroubleReporter

    server = make_server(app)

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(TroubleReporter())
        await server.serve(sockets=[listening])

    asyncio.run(run())


def make_server(app: "ASGIApp") -> "uvicorn.Server":
    """Return a server with limits of time and number, so that strangers cannot block it."""
    import logging

    import uvicorn

    from relight.web.connections import LimitedConnection, count_acceptable, is_worth_logging

    LimitedConnection.limit = count_acceptable()
    settings = uvicorn.Config(
        app,
        http=LimitedConnection,
        ws="none",
        # every client can write X-Forwarded-For, and would be a new one with each wrong token
        proxy_headers=False,
        lifespan="on",
        # warnings are about single requests, which a stranger can send without end
        log_level="error",
        backlog=BACKLOG,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    logging.getLogger("uvicorn.error").addFilter(is_worth_logging)
    return uvicorn.Server(settings)


def open_browser(address: str) -> None:
    """Open the address beside the server: a browser of the terminal returns when it is closed."""
    import threading
    import webbrowser

    def run() -> None:
        if not webbrowser.open(address):
            click.echo(f"no browser was found: open {address}", err=True)

    threading.Thread(target=run, daemon=True).start()


def check_team(host: str, tls_proxy: str | None, *, is_loopback: bool) -> None:
    """Raise if members' tokens and prompts would travel unencrypted."""
    if not is_loopback and not tls_proxy:
        raise RelightError(
            f"other machines can reach {host} only without encryption",
            "leave --host out and let a proxy or a tunnel lead here, or name the proxy that"
            " terminates TLS with --tls-proxy",
        )


def check_token_length(host: str, token: str | None) -> None:
    """Raise unless the token is long enough for other machines to be let in."""
    hint = "set RELIGHT_TOKEN to a long secret, or leave --host out"
    if not token:
        raise RelightError(f"other machines can reach {host}, and no token is set", hint)
    if len(token) < SHORTEST_TOKEN:
        raise RelightError(f"the token is shorter than {SHORTEST_TOKEN} characters", hint)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket: requests may arrive as soon as the address is printed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(found[4][:2], family=found[0], backlog=BACKLOG)
        # the end of a response must not wait for an acknowledgement of its start
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except socket.gaierror as error:
        raise RelightError(
            f"{host} is not an address of this machine", "leave --host out for 127.0.0.1"
        ) from error
    except OSError as error:
        raise RelightError(
            f"cannot serve on {host}, port {port}: {os.strerror(error.errno or 0)}",
            "name another with --port; 0 takes any that is free",
        ) from error
