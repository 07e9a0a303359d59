"""The input and output of Hermes' tools, as JSON."""

from typing import Any

from relight.cli.demo.story import HOME, StoryStep, read_skills

Row = dict[str, Any]


def use(step: StoryStep) -> tuple[str, Row, Row]:
    """Return the tool's name, its arguments, and its result."""
    match step.tool:
        case "run":
            result = {"output": step.out, "exit_code": step.exit, "error": None}
            return "terminal", {"command": step.target}, result
        case "read" if step.exit:
            missing = {"content": "", "total_lines": 0, "error": f"File not found: {step.target}"}
            return "read_file", {"path": step.target}, missing
        case "read":
            lines = step.out.split("\n")
            text = "\n".join(f"{number}|{line}" for number, line in enumerate(lines, 1))
            size = {"total_lines": len(lines), "file_size": len(step.out), "truncated": False}
            return "read_file", {"path": step.target}, {"content": text, **size}
        case "edit":
            change = {"path": step.target, "old_string": step.old, "new_string": step.new}
            diff = f"--- a/{step.target}\n+++ b/{step.target}\n-{step.old}\n+{step.new}"
            return "patch", change, {"success": True, "diff": diff}
        case "write":
            given = {"path": step.target, "content": step.text + "\n"}
            return "write_file", given, {"bytes_written": len(step.text.encode()) + 1}
        case "search":
            found = [line.split(":", 2) for line in step.out.split("\n") if line.count(":") >= 2]
            rows = [{"path": path, "line": int(at), "content": text} for path, at, text in found]
            asked = {"pattern": step.target, "path": step.path, "target": "content"}
            return "search_files", asked, {"total_count": len(rows), "matches": rows}
        case "fetch":
            page = {"url": step.target, "content": step.out, "error": None}
            return "web_extract", {"urls": [step.target]}, {"results": [page]}
        case "plan":
            todos = [{"id": item, "content": item, "status": "pending"} for item in step.items]
            return "todo", {"todos": todos}, {"todos": todos}
        case "skill":
            skill = read_skills(step.target)[-1]
            place = f"{HOME}/.hermes/skills/{skill.name}"
            shown = {"success": True, "name": skill.name, "description": skill.description}
            result = {**shown, "content": skill.document, "skill_dir": place}
            return "skill_view", {"name": skill.name}, result
        case _:
            return "delegate_task", {"goal": step.target, "context": step.text}, {}
