"""What a person asks of an experiment: the tasks, the two arms, who does the work, and limits."""

from typing import Literal

from msgspec import Struct

from relight.checks import check_count, check_number
from relight.errors import RelightError
from relight.work.experiments.tasks import Task

NAME_LIMIT = 80
WARM, COLD = "warm", "cold"


class Plan(Struct, frozen=True, kw_only=True):
    """An experiment as it was asked for; kept as it is, so that it goes on as it began.

    The arms are `cold` and `warm`, or two models. The second is held against the first.
    """

    tasks: list[Task]
    arms: list[str]
    runner: Literal["chat", "command"] = "chat"
    command: list[str] = []
    use_shell: bool = False
    model: str | None = None
    base_url: str | None = None
    key_variable: str | None = None
    # of the warm arm: a template's name, or auto
    template: str = "auto"
    tools: list[str] | None = None
    rounds: int = 1
    run_seconds: float = 1800.0
    max_attempts: int = 2
    # of all runs together
    budget_usd: float | None = None
    budget_tokens: int | None = None
    # work in the tasks' own folders rather than in fresh copies of them
    in_place: bool = False

    @property
    def is_warm_start(self) -> bool:
        return set(self.arms) == {WARM, COLD}

    @property
    def planned_pairs(self) -> int:
        return len(self.tasks) * self.rounds

    def find_model(self, arm: str) -> str | None:
        """The model that does the work in an arm."""
        return self.model if self.is_warm_start else arm

    def find_agent(self) -> str | None:
        """The agent that does the work, by the name of its sessions' source; None where unknown."""
        if self.runner == "chat":
            return "relight"
        from relight.work.jobs.recipes import find_recipe

        found = None if self.use_shell else find_recipe(self.command)
        return found[0].source if found else None


def check_plan(plan: Plan) -> Plan:
    """The plan, if it can be carried out; else an error that says what is wrong with it."""
    if len(plan.arms) != 2 or plan.arms[0] == plan.arms[1]:
        raise RelightError("an experiment has two arms", "warm and cold, or two models")
    if not plan.is_warm_start and set(plan.arms) & {WARM, COLD}:
        raise RelightError("warm and cold go together", "use --models A,B to compare models")
    if plan.runner == "command" and not plan.command:
        raise RelightError("which command?", "name one with --command, such as: claude -p {prompt}")
    if plan.runner == "chat" and plan.command:
        raise RelightError("a command goes with the runner command")
    if plan.runner == "chat" and not plan.find_model(plan.arms[0]):
        raise RelightError("which model?", "name one with --model or RELIGHT_MODEL")
    if plan.runner == "command" and not plan.is_warm_start:
        from relight.work.jobs.recipes import can_choose_model

        if not can_choose_model(plan.command, use_shell=plan.use_shell):
            raise RelightError(
                "the command cannot be told which model to use", "put {model} into it"
            )
    check_count("rounds", plan.rounds, least=1)
    check_count("max_attempts", plan.max_attempts, least=1)
    check_number("run_seconds", plan.run_seconds, least=1)
    if plan.budget_usd is not None:
        check_number("budget_usd", plan.budget_usd, least=0)
    if plan.budget_tokens is not None:
        check_count("budget_tokens", plan.budget_tokens, least=1)
    return plan


def check_name(name: str) -> str:
    if not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise RelightError(
            f"{name[:NAME_LIMIT]!r} cannot name an experiment",
            f"give it one line of 1 to {NAME_LIMIT} characters",
        )
    return name
