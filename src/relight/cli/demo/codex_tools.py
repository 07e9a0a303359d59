"""The input and output of Codex' tools, most of which are shell commands."""

import json
from dataclasses import dataclass

from relight.cli.demo.story import HOME, StoryStep, read_skills


@dataclass(frozen=True)
class Request:
    """A tool call: a shell command, or another tool with its input."""

    name: str
    input: str
    out: str = ""
    command: str = ""
    exit: int = 0


def make_function_call(step: StoryStep) -> Request:
    """Return the call for a step; Codex reads and searches with the shell, and edits by patches."""
    match step.tool:
        case "run":
            return _shell(step.target, step.out, exit_code=step.exit)
        case "read":
            command = f"sed -n '1,200p' {step.target}"
            if step.exit:
                missing = f"sed: can't read {step.target}: No such file or directory"
                return _shell(command, missing, exit_code=2)
            return _shell(command, step.out)
        case "search":
            command = f"rg -n '{step.target}' {step.path}"
            return _shell(command, step.out, exit_code=0 if step.out else 1)
        case "skill":
            path = f"{HOME}/.codex/skills/{step.target}/SKILL.md"
            return _shell(f"cat {path}", read_skills(step.target)[-1].document)
        case "fetch":
            return _shell(f"curl -sSL {step.target} | head -40", step.out)
        case "plan":
            plan = [{"step": item, "status": "pending"} for item in step.items]
            return Request("update_plan", json.dumps({"plan": plan}), out="Plan updated")
        case _:
            return _patch(step)


def _shell(command: str, out: str, *, exit_code: int = 0) -> Request:
    return Request("exec_command", json.dumps({"cmd": command}), out, command, exit_code)


def _patch(step: StoryStep) -> Request:
    if step.tool == "write":
        body = f"*** Add File: {step.target}\n" + "".join(
            f"+{line}\n" for line in step.text.split("\n")
        )
    else:
        removed = "".join(f"-{line}\n" for line in step.old.split("\n"))
        added = "".join(f"+{line}\n" for line in step.new.split("\n"))
        body = f"*** Update File: {step.target}\n@@\n{removed}{added}"
    mark = "A" if step.tool == "write" else "M"
    done = f"Success. Updated the following files:\n{mark} {step.target}\n"
    return Request("apply_patch", f"*** Begin Patch\n{body}*** End Patch", out=done)
