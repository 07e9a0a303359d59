import click

from relight.cli.options import current_home, relight_command
from relight.cli.serve import HOST, OTLP_PORT, listen, run_app


@relight_command("collect", example="relight collect --port 4319")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=OTLP_PORT,
    show_default=True,
    help="The port; 0 is any that is free.",
)
def command(port: int) -> None:
    """Receive telemetry of programs on this machine (OTLP over HTTP), and record it.

    It takes traces and logs in protobuf or JSON; gRPC is not supported. A request is acknowledged
    when its records are on disk, and in reports within some seconds. The address is the first line
    of the output. Ctrl-C ends it. `relight serve --otlp` does the same beside the dashboard.
    """
    with listen(HOST, port) as listening:
        click.echo(f"http://{HOST}:{listening.getsockname()[1]}/")
        click.echo("Ctrl-C ends it")

        from relight.web.otlp import create_receiver

        run_app(create_receiver(current_home(), is_watching=True), listening)
