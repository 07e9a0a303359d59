"""Skills in Claude Code's sessions: loaded by the `Skill` tool, or typed as a slash command.

Newer clients also write on each answer which skill it was spent on. The skill's text follows in a
message that the client wrote; its front matter, and so a declared version, is left out of it.
"""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct, convert
from msgspec.structs import replace

from relight.model import SkillEntry, SkillWay
from relight.sources.skill_documents import read_skill_version

REMEMBERED = 8
NAME = re.compile(r"<command-name>/([^<\s]+)</command-name>")
ARGUMENTS = re.compile(r"<command-args>\s*\S")
FOLDER = re.compile(r"\ABase directory for this skill: [^\n]*\n+")
BEHIND = re.compile(r"\n+ARGUMENTS: .*\Z", re.DOTALL)
# The client's own commands. New ones come each month: one that is not here is known by the answer
# that the client writes behind it, unless that was lost.
COMMANDS = """
    add-dir agents background bashes branch btw bug chrome clear color compact config context
    copy cost desktop diff doctor effort exit export extra-usage fast feedback files fork goal
    heapdump help hooks ide init insights install-github-app install-slack-app keybindings login
    logout mcp memory migrate-installer mobile model output-style passes permissions plan plugin
    plugins powerup pr-comments pr_comments privacy-settings quit rate-limit-options recap
    release-notes reload-plugins remote-control remote-env rename reset resume review rewind
    sandbox security-review setup-token skills stats status statusline stickers tag tasks
    team-onboarding teleport terminal-setup theme think-back todos tui ultraplan ultrareview
    update upgrade usage usage-credits vim voice web-setup
"""
BUILT_IN = frozenset(COMMANDS.split())


class LoadingSkill(Struct, frozen=True):
    """A requested skill; later lines may have its text."""

    key: str
    session: str
    name: str
    entry: SkillWay
    at: int | None
    turn: str | None
    has_arguments: bool


class WatchedSkills(Struct):
    """The command typed last, and the skills whose text may still come."""

    typed: LoadingSkill | None = None
    loading: dict[str, LoadingSkill] = {}


class SkillArguments(Struct):
    skill: str = ""
    args: str | None = None


class SkillWatch:
    """Finds the skills in the lines of a transcript."""

    def __init__(self, state: WatchedSkills) -> None:
        self.state = state

    def see_call(
        self, key: str, arguments: bytes, *, session: str, turn: str, at: int | None
    ) -> None:
        """Note a call of the `Skill` tool; its result says whether a skill was loaded."""
        try:
            wanted = msgspec.json.decode(arguments, type=SkillArguments)
        except msgspec.DecodeError:
            return
        if wanted.skill:
            loading = LoadingSkill(key, session, wanted.skill, "tool", at, turn, bool(wanted.args))
            self._remember(loading)

    def see_result(self, key: str, *, is_error: bool | None) -> Iterator[SkillEntry]:
        """The skill that a call loaded, unless the call failed."""
        loading = self.state.loading.get(key)
        if loading is not None and not is_error:
            yield _enter(loading)

    def see_answer(
        self, skill: str | None, *, session: str, turn: str, at: int | None
    ) -> Iterator[SkillEntry]:
        """The skill that the client says an answer was spent on."""
        if self.state.typed is not None:
            yield from self._settle(session, "")
        if skill:
            key = f"{turn}={skill}"
            yield SkillEntry(key=key, session=session, name=skill, at=at, turn=turn)

    def may_be_in(self, text: str) -> bool:
        """False for a text that `see_text` finds nothing in, which are nearly all."""
        state = self.state
        return state.typed is not None or bool(state.loading) or text.startswith("<command-")

    def see_text(
        self,
        text: str,
        *,
        session: str,
        at: int | None,
        uuid: str | None,
        cause: str | None,
        is_typed: bool,
    ) -> Iterator[SkillEntry]:
        """The skills in a message's text; `cause` is the call or the line that it follows from."""
        if self.state.typed is not None:
            yield from self._settle(session, text)
        if loading := self.state.loading.get(cause or ""):
            yield _enter(loading, version=find_version(text, loading.has_arguments))
        elif is_typed and uuid and text.startswith("<command-"):
            found = NAME.search(text)
            if found and found[1] not in BUILT_IN:
                has_arguments = ARGUMENTS.search(text) is not None
                self.state.typed = LoadingSkill(
                    uuid, session, found[1], "slash", at, None, has_arguments
                )

    def _settle(self, session: str, text: str) -> Iterator[SkillEntry]:
        """The skill of the command typed last, unless the client answered it without the model."""
        typed = self.state.typed
        if typed is None or typed.session != session:
            return
        self.state.typed = None
        if not text.startswith("<local-command-"):
            self._remember(typed)
            yield _enter(typed)

    def _remember(self, loading: LoadingSkill) -> None:
        known = {**self.state.loading, loading.key: loading}
        self.state.loading = dict(list(known.items())[-REMEMBERED:])


def _enter(loading: LoadingSkill, *, version: str | None = None) -> SkillEntry:
    return replace(convert(loading, SkillEntry, from_attributes=True), version=version)


def find_version(text: str, has_arguments: bool) -> str | None:
    """The version of a skill's text, without its folder and its arguments.

    With arguments inside the text, each use has another text: the version is unknown.

    >>> find_version("Base directory for this skill: /a/tidy\\n\\nTidy up.", False)
    'sha256:b246a1d1e6bd'
    >>> find_version("Tidy up.\\n\\nARGUMENTS: the kitchen", True)
    'sha256:b246a1d1e6bd'
    """
    if text.startswith("<"):
        return None
    body = BEHIND.sub("", text)
    if has_arguments and body == text:
        return None
    return read_skill_version(FOLDER.sub("", body))
