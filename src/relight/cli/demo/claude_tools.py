"""The input and output of Claude Code's tools, and its token counts."""

from typing import Any

from relight.cli.demo.metering import TokenUse, estimate_usd
from relight.cli.demo.story import StoryStep


def make_tool_use(step: StoryStep, cwd: str) -> tuple[str, dict[str, Any]]:
    """Return the tool's name and its arguments."""
    path = _place(step.target, cwd)
    match step.tool:
        case "run":
            words = " ".join(step.target.split()[:3])
            return "Bash", {"command": step.target, "description": f"Run {words}"}
        case "read":
            return "Read", {"file_path": path}
        case "edit":
            return "Edit", {"file_path": path, "old_string": step.old, "new_string": step.new}
        case "write":
            return "Write", {"file_path": path, "content": step.text + "\n"}
        case "search":
            where = _place(step.path, cwd)
            return "Grep", {"pattern": step.target, "path": where, "output_mode": "content"}
        case "fetch":
            return "WebFetch", {"url": step.target, "prompt": step.text}
        case "plan":
            return "TodoWrite", {"todos": _plan(step)}
        case "skill":
            return "Skill", {"skill": step.target}
        case _:
            agent = {"subagent_type": "Explore"}
            return "Agent", {"description": step.target, "prompt": step.text, **agent}


def answer(step: StoryStep, cwd: str) -> tuple[str | list[dict[str, Any]], Any, bool]:
    """Return the result for the model, the details for the client, and True for an error."""
    path = _place(step.target, cwd)
    kept: dict[str, Any]
    match step.tool:
        case "run" if step.exit:
            text = f"Exit code {step.exit}\n{step.out}".strip()
            return text, f"Error: {text}", True
        case "run":
            return step.out, {"stdout": step.out, "stderr": "", "interrupted": False}, False
        case "read" if step.exit:
            text = f"File does not exist: {path}"
            return text, f"Error: {text}", True
        case "read":
            lines = step.out.split("\n")
            text = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))
            size = {"numLines": len(lines), "startLine": 1, "totalLines": len(lines)}
            file = {"filePath": path, "content": step.out, **size}
            return text, {"type": "text", "file": file}, False
        case "edit":
            kept = {"filePath": path, "oldString": step.old, "newString": step.new}
            return f"{path} has been updated.", {**kept, "replaceAll": False}, False
        case "write":
            kept = {"type": "create", "filePath": path, "structuredPatch": []}
            return f"File created: {path}", kept, False
        case "search":
            count = step.out.count("\n") + 1 if step.out else 0
            kept = {"mode": "content", "numFiles": 0, "content": step.out, "numLines": count}
            return step.out or "No matches found", kept, False
        case "fetch":
            return step.out, {"url": step.target, "code": 200, "result": step.out}, False
        case "plan":
            return "The list has been updated.", {"newTodos": _plan(step)}, False
        case "skill":
            return f"Launching skill: {step.target}", _launch(step), False
        case _:
            return [{"type": "text", "text": step.out}], None, False


def _launch(step: StoryStep) -> dict[str, Any]:
    return {"success": True, "commandName": step.target}


def _plan(step: StoryStep) -> list[dict[str, str]]:
    states = ["in_progress"] + ["pending"] * len(step.items)
    return [
        {"content": item, "status": state, "activeForm": item}
        for item, state in zip(step.items, states, strict=False)
    ]


def _place(path: str, cwd: str) -> str:
    return path if path.startswith("/") else f"{cwd}/{path}"


def write_usage(usage: TokenUse) -> dict[str, Any]:
    """Return the tokens of a response, as on each of its lines."""
    return {
        "input_tokens": usage.fresh,
        "cache_creation_input_tokens": usage.write,
        "cache_read_input_tokens": usage.read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.thinking},
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.write - usage.write_1h,
            "ephemeral_1h_input_tokens": usage.write_1h,
        },
        "service_tier": "standard",
    }


def write_total(model: str, usage: TokenUse) -> dict[str, Any]:
    """Return the tokens of a session with one model, as in its `cost-state`."""
    return {
        "inputTokens": usage.fresh,
        "outputTokens": usage.output,
        "thinkingTokens": usage.thinking,
        "cacheReadInputTokens": usage.read,
        "cacheCreationInputTokens": usage.write,
        "cacheCreationEphemeral5mInputTokens": usage.write - usage.write_1h,
        "cacheCreationEphemeral1hInputTokens": usage.write_1h,
        "webSearchRequests": 0,
        "costUSD": estimate_usd(usage, model),
    }
