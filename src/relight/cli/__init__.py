"""The command line. Nothing but click is imported until a command is run."""

import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from relight.errors import RelightError, StoreError, TypedCommand, as_typed, name_home, quote_path

TYPED = "RELIGHT_COMMAND"  # `./dev` sets it
# the variable that is set if a shell asks for completions
COMPLETING = "_RELIGHT_COMPLETE"
IS_WINDOWS = os.name == "nt"
# every command: its module and its line in the help
COMMANDS = {
    "import": ("importing", "Read new records from the agents' own files."),
    "report": ("report", "Show cost and usage by day, model, project and more."),
    "sessions": ("sessions", "List sessions, newest first, with outcome and cost."),
    "show": ("show", "Show one session: what was said and done, failed and cost."),
    "top": ("top", "Show the sessions that run now."),
    "search": ("search", "Search what was said and done in all sessions."),
    "resume": ("resume", "Continue a session in its own agent."),
    "failures": ("failures", "Show failures by kind and tool, and spirals."),
    "lessons": ("lessons", "Show what a project's sessions stumble over, and what worked."),
    "cache": ("cache_rebuilds", "Show what rebuilding the prompt cache cost, and why."),
    "cost": ("cost", "Show what a branch, a commit or a path cost."),
    "label": ("label", "Label a session's outcome; a label overrides all other evidence."),
    "limits": ("limits", "Show how full the windows of plans are, and where that leads."),
    "statusline": ("statusline", "Print one line for an agent's status line."),
    "job": ("job", "Schedule agent work; see the outcome of each run."),
    "scheduler": ("scheduler", "Run jobs when they are due."),
    "savings": ("savings", "Show what cheaper models would save, and what it takes to know."),
    "brief": ("brief", "Show the runs since last evening, failures first."),
    "alarms": ("alarms", "Show jobs and models that fail or cost more than before."),
    "notify": ("notify", "Show or try where failed runs are reported to."),
    "budget": ("budget", "Set what may be spent; see what it will be, and stop agents."),
    "skills": ("skills", "Show cost and success of skills, by model."),
    "template": ("template", "Keep the best part of good sessions, to start others with."),
    "warm": ("warm", "Print what a new session should begin with."),
    "experiment": ("experiment", "Show whether warm starts helped."),
    "run": ("run", "Let an agent do a task, recorded as it goes."),
    "exec": ("program", "Run a Python program and record its model calls."),
    "moa": ("moa", "Ask several models at once; see who said what."),
    "mcp": ("mcp.command", "Let an agent ask Relight, over MCP."),
    "serve": ("serve", "Serve the dashboard to a browser."),
    "collect": ("collect", "Receive telemetry of programs (OpenTelemetry)."),
    "join": ("join", "Push this machine's record to a server of yours."),
    "push": ("push", "Send what is new to the server that this machine has joined."),
    "status": ("status", "Show where this machine pushes to, and what is pending."),
    "leave": ("leave", "Stop pushing; remove what this machine sent."),
    "member": ("member", "Manage the people whose machines push to this store."),
    "migrate": ("migrate", "Bring a server's database to the schema of this version."),
    "doctor": (
        "doctor",
        "Check the agents found, unreadable files, missing prices and the database.",
    ),
    "rebuild": ("rebuild", "Derive all figures again from the tape."),
    "prune": ("prune", "Drop old tapes and old sessions."),
    "forget": ("forget", "Delete one session permanently."),
    "export": ("export", "Write sessions, turns and tool calls into files."),
    "history": ("history", "Keep the figures of closed months as Parquet files."),
    "backup": ("backup", "Copy the whole store into one file."),
    "restore": ("restore", "Put a backup in the place of this store."),
    "config": ("config", "Show the settings and where they come from."),
    "demo": ("demo.command", "Try Relight on invented sessions."),
}


class LazyGroup(click.Group):
    """Commands by name, imported when they run or show their help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = import_module(f"relight.cli.{module}").command
        if COMPLETING in os.environ:
            from relight.cli.completion import add_completions

            add_completions(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            # click looks for similar names only among imported commands
            from difflib import get_close_matches

            close = [f"{name!r}" for name in get_close_matches(args[0], COMMANDS)]
            meant = f" Did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would exit with 1. If another line fails too, the reader of our output has
            # gone, as `head` does. Otherwise it is the pipe of a program we started: an error
            try:
                sys.stdout.write("\n")
                sys.stdout.flush()
            except BrokenPipeError:
                _discard_rest(sys.stdout)
                ctx.exit(0)
            raise
        except (RelightError, OSError, click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:  # a damaged database may hold anything, and so raise anything
            _check_database(ctx.meta.get("relight.home"), error)
            raise

    def get_help(self, ctx: click.Context) -> str:
        return as_typed(super().get_help(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command has --help with an example. To begin, run relight without a command.",
)
@click.option(
    "--home", metavar="DIR", help="Relight's folder (default: RELIGHT_HOME or ~/.relight)."
)
@click.option("--no-import", is_flag=True, help="Do not read what is new first.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.pass_context
def relight(
    ctx: click.Context, home: str | None, no_import: bool, debug: bool, version: bool
) -> None:
    """The flight recorder and warm start for AI agents.

    Without a command, it shows what is recorded and totals of the last 30 days. On first use it
    finds the agents on this machine and reads their sessions.
    """
    ctx.meta.update({"relight.home": home, "relight.no_import": no_import})
    if home:
        name_home(home)
        ctx.call_on_close(name_home)
    if version:
        from relight import __version__

        click.echo(f"relight {__version__}")
    elif ctx.invoked_subcommand is None:
        from relight.cli.overview import show_overview

        show_overview(home, is_fresh=not no_import)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; print an error once, with a hint."""
    words = sys.argv[1:] if arguments is None else arguments
    TypedCommand.name = _find_command()
    if arguments is None:
        os.environ.pop(TYPED, None)  # it is not the command of programs that this one starts
    _open_standard_streams()
    _await_children()
    if COMPLETING in os.environ:
        from relight.cli.completion import prepare_shells

        TypedCommand.name = prepare_shells(TypedCommand.name)
    try:
        status = _run(words, is_program=arguments is None)
    except Exception as error:  # an error of Relight must not stop the agent that runs the hook
        if not _is_hook(words) or "--debug" in words:
            raise
        status = _print_error(f"{type(error).__name__}: {error}", None)
    if _is_hook(words):
        # an agent may block the prompt for another status: Claude Code does so for 2
        status = 0
    if arguments is None:
        # everything is written and closed: skip the interpreter's slow shutdown
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


def _find_command() -> str:
    """Return the command that started this program, as it was typed: `relight`, `./dev run` …"""
    if typed := os.environ.get(TYPED):
        return typed
    script = sys.argv[0].replace(os.sep, "/").split("/") if sys.argv else []
    if script[-2:] == ["relight", "__main__.py"]:
        return f"{quote_path(sys.orig_argv[0])} -m relight"
    if script[-1:] == ["relight"] and not _is_first(os.path.abspath(sys.argv[0])):  # noqa: PTH100
        return quote_path(sys.argv[0])
    return "relight"


def _is_first(program: str) -> bool:
    """True if a shell that is given the name of this program starts it.

    As `shutil.which` finds it, which takes as long to load as the help to print.
    """
    name = os.path.basename(program)  # noqa: PTH119
    found = (f"{folder}/{name}" for folder in os.get_exec_path())
    usable = (one for one in found if os.access(one, os.X_OK) and os.path.isfile(one))  # noqa: PTH113
    return next(usable, None) == program


def _check_database(home: str | None, error: Exception) -> None:
    """Raise what is wrong with the database, if that explains an unexpected error."""
    from relight.config import find_home, read_config
    from relight.store import open_reader
    from relight.store.queries.health import find_damage
    from relight.store.sql import RESTORE

    config = read_config(find_home(home))
    if not config.has_store:
        return
    with open_reader(config) as store:
        damage = find_damage(store)
    if damage is not None:
        raise StoreError(f"the database {config.database} is damaged: {damage}", RESTORE) from error


def _is_hook(words: list[str]) -> bool:
    """True if an agent calls its hook, whatever else the command line contains."""
    return any(word == "--hook" or word.startswith("--hook=") for word in words)


def _open_standard_streams() -> None:
    """Open closed standard streams on nothing, so that no file of ours gets their numbers."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _await_children() -> None:
    """Let the system keep the exit codes of children, also if the caller has it ignore them.

    Such a caller leaves SIGCHLD ignored: a command that failed would count as one that succeeded.
    """
    if not IS_WINDOWS:
        signals = import_module("_signal")  # `signal` takes 0.3 ms to load
        if signals.getsignal(signals.SIGCHLD) == signals.SIG_IGN:
            signals.signal(signals.SIGCHLD, signals.SIG_DFL)


def set_up_streams() -> None:
    """Print UTF-8 to files and pipes on Windows, and a replacement where a character is missing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_foreign = IS_WINDOWS and not stream.isatty()
            stream.reconfigure(errors="replace", encoding="utf-8" if is_foreign else None)


def _run(words: list[str], *, is_program: bool) -> int:
    """Run a command and return its exit status.

    The context's `obj` is True if the process is this program alone.
    """
    set_up_streams()
    try:
        code: Any = relight.main(
            words,
            prog_name=TypedCommand.name,
            complete_var=COMPLETING,
            standalone_mode=False,
            obj=is_program,
        )
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except RelightError as error:
        if "--debug" in words:
            raise
        code = _print_error(error.message, error.hint)
    except BrokenPipeError:
        # the reader of our output has gone, as `head` does
        _discard_rest(sys.stdout)
        code = 0
    except OSError as error:
        if "--debug" in words:
            raise
        _discard_rest(sys.stdout)
        reason = ": ".join(map(str, filter(None, (error.filename, error.strerror)))) or str(error)
        code = _print_error(reason, "check the path, its permissions and the space on its disk")
    return code if isinstance(code, int) else 0


def _print_error(message: str, hint: str | None) -> int:
    from relight.text import clean_lines  # a message may contain text of a hostile file

    click.echo(f"error: {clean_lines(message)}", err=True)
    if hint:
        click.echo(f"hint: {clean_lines(hint)}", err=True)
    return 1


def _discard_rest(stream: TextIO) -> None:
    """Discard unwritten output, or Python would fail on it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
