"""Invented tasks for bulk sessions: random steps with output cut from a pool of code-like text.

Of 9,854 results of real coding sessions 1.6 % held a character outside ASCII and 4 % an address;
of their commands, 51 characters long in the median, 17 % had several lines.
"""

from collections.abc import Iterator

from relight.cli.demo.dice import Dice
from relight.cli.demo.story import StoryStep, StoryTask

POOL_CHARACTERS = 4_000_000
_PROSE = """import return const async await function class self error value result request response
    session token cache index config build test assert path file line module parse json stream
    buffer queue worker thread lock commit branch merge rebase deploy service client server handler
    retry timeout schema migrate table column select where group order limit update insert delete
    user account invoice balance ledger metric trace span event payload"""
WORDS = tuple(_PROSE.split())
PROJECTS = ("api-gateway", "billing", "docs-site", "etl-jobs", "infra", "mobile-app", "notebooks")
SKILLS = ("code-review", "db-migration", "release-notes", "incident-notes")
TOOLS = {"run": 38, "read": 26, "edit": 14, "search": 12, "write": 5, "plan": 3, "fetch": 1}
# a line of a transcript, quoted in a tool's result: it looks like usage to a scan for bytes
QUOTED = (
    '{"type":"assistant","message":{"id":"msg_quoted","model":"claude-opus-4-6","usage":'
    '{"input_tokens":999999,"output_tokens":999999}},"requestId":"req_quoted"}'
)
QUOTE_CHANCE, FAILURE_CHANCE, TALK_CHANCE, SKILL_CHANCE = 0.02, 0.06, 0.45, 0.12
ADDRESS_CHANCE, UNICODE_CHANCE, SCRIPT_CHANCE = 0.04, 0.03, 0.17
COMMANDS = {
    "cat src/{one}/{two}.py": 16,
    'grep -rn "{one}_{two}" src --include="*.py" | head -{number}': 14,
    "sed -n '{number},{more}p' src/{one}/{two}.py": 14,
    "python -m pytest tests/test_{one}.py -q -k {two}": 10,
    "ls -la src/{one} && wc -l src/{one}/*.py": 6,
    "cd packages/{one} && npm test -- --grep '{two}' 2>&1 | tail -{number}": 6,
    "git diff HEAD~{number} -- src/{one}/{two}.py": 5,
    'git add -A && git commit -m "Mend the {one} of the {two}"': 4,
    "find . -name '*{one}*.py' -not -path './node_modules/*' | xargs grep -l {two}": 4,
    "rm -rf build/{one} && mkdir -p build/{one}": 3,
    "curl -s https://api.example.com/v1/{one}/{number}?page={more} | jq '.{two}'": 2,
    "PYTHONPATH=src timeout {number} python scripts/{one}.py --{two} {more}": 2,
    "pip install -e '.[{one}]' && ruff check src tests": 2,
    "docker compose up -d {one}; docker compose logs {one} | tail -{number}": 1,
}


class BulkText:
    """Invents texts, steps and tasks; slices of one pool stand for output, prompts and prose."""

    def __init__(self, dice: Dice, size: int = POOL_CHARACTERS) -> None:
        self.dice = dice
        self.pool = "\n".join(_write_lines(dice, size))

    def take(self, least: int, most: int) -> str:
        length = self.dice.randint(least, most)
        start = self.dice.randrange(len(self.pool) - length)
        return self.pool[start : start + length]

    def invent_output(self) -> str:
        """Return a tool's output: 200 bytes to 50 KB, 2.5 KB in the median."""
        dice = self.dice
        size = int(min(50_000, max(200, dice.lognormvariate(7.8, 1.15))))
        output = self.take(size, size)
        if dice.is_lucky(ADDRESS_CHANCE):
            output += f"\nsee https://docs.example.com/{dice.choice(WORDS)}#{dice.choice(WORDS)}"
        if dice.is_lucky(UNICODE_CHANCE):
            output += f"\n✓ {dice.choice(WORDS)} — {dice.randint(1, 999)} ms · naïve café"
        if dice.is_lucky(QUOTE_CHANCE):
            output += f"\n{QUOTED}"
        return output

    def invent_command(self) -> str:
        """Return a line for the shell, sometimes with a short script."""
        dice = self.dice
        command = dice.choices(tuple(COMMANDS), tuple(COMMANDS.values()))[0].format(
            one=dice.choice(WORDS),
            two=dice.choice(WORDS),
            number=dice.randint(1, 99),
            more=dice.randint(100, 999),
        )
        if not dice.is_lucky(SCRIPT_CHANCE):
            return command
        return f"{command} && python - <<'EOF'\n{self.take(100, 1_500)}\nEOF"

    def invent_step(self) -> StoryStep:
        """Return a random tool call with its result."""
        dice = self.dice
        tool = dice.choices(tuple(TOOLS), tuple(TOOLS.values()))[0]
        is_failed = tool in ("run", "read") and dice.is_lucky(FAILURE_CHANCE)
        is_change = tool in ("edit", "write")
        path = f"src/{dice.choice(WORDS)}.py"
        return StoryStep(
            tool=tool,
            target=self.invent_command() if tool == "run" else path,
            say=self.take(80, 1_500) if dice.is_lucky(TALK_CHANCE) else "",
            out="" if is_change or tool == "plan" else self.invent_output(),
            exit=dice.randint(1, 127) if is_failed else 0,
            seconds=dice.lognormvariate(6.2, 1.4) / 1000,
            path="src",
            text=self.take(100, 4_000) if tool == "write" else dice.choice(WORDS),
            old=self.take(20, 400) if tool == "edit" else "",
            new=self.take(100, 4_000) if tool == "edit" else "",
            items=tuple(dice.sample(WORDS, 3)),
        )

    def invent_task(self, responses: int, *, with_skill: bool = False) -> StoryTask:
        """Return a prompt that takes this many responses, the answer included."""
        steps = [self.invent_step() for _ in range(responses - 1)]
        if with_skill and steps and self.dice.is_lucky(SKILL_CHANCE):
            steps[0] = StoryStep(tool="skill", target=self.dice.choice(SKILLS))
        prompt, answer = self.take(30, 900), self.take(100, 2_500)
        project = self.dice.choice(PROJECTS)
        return StoryTask("bulk", project, prompt, tuple(steps), answer)

    def invent_tasks(self, responses: int, *, with_skill: bool = False) -> Iterator[StoryTask]:
        """Yield tasks of about nine responses each, until so many are used up."""
        while responses > 0:
            some = min(responses, 1 + int(self.dice.expovariate(1 / 9)))
            yield self.invent_task(some, with_skill=with_skill)
            responses -= some

    def invent_delegation(self) -> StoryStep:
        """Return a step that a sub-agent does."""
        inner = tuple(self.invent_step() for _ in range(self.dice.randint(1, 13)))
        text, out = self.take(80, 900), self.take(100, 2_500)
        return StoryStep(tool="delegate", target="Look around", text=text, out=out, inner=inner)


def _write_lines(dice: Dice, size: int) -> Iterator[str]:
    """Yield lines of code, paths, JSON and prose."""
    while size > 0:
        words = " ".join(dice.choices(WORDS, k=dice.randint(3, 11)))
        one, two, number = dice.choice(WORDS), dice.choice(WORDS), dice.randint(1, 999)
        lines = (
            f'    {one}_{number} = {two}("{words}", {dice.random():.4f})',
            f"src/{one}/{two}.py:{number}: {words}",
            f'\t{{"{one}": {number}, "{two}": "{words}"}}',
            words + dice.choice((".", ";", ":", " {", ")", "")),
        )
        line = dice.choices(lines, (36, 21, 7, 36))[0]
        size -= len(line) + 1
        yield line
