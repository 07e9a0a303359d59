"""LiteLLM calls other clients and HTTP libraries: one call of it is one turn, and nothing changes.

Its environment, 250 MB with an older OpenAI client, is too large for every run of the tests.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from clients import TOOLS, find_program, run_installer
from relight.store import open_store
from scripted_sdks import SdkServer

LITELLM = "litellm==1.106.2"
ROOT = TOOLS.parent
PROGRAM = """
import asyncio, json, sys
if "--recorded" in sys.argv:
    import relight.auto
import litellm
litellm.suppress_debug_info = True
litellm.modify_params = True  # it would refuse results of tools that a request does not name
url, seen = sys.argv[1], []
PLACES = {
    "openai/gpt-5.1": f"{url}/v1",
    "anthropic/claude-sonnet-4-5": url,
    "gemini/gemini-2.5-pro": url,
}
def see(case, value):
    seen.append([case, type(value).__qualname__, json.loads(value.model_dump_json())])
def ask(model, words, **more):
    return dict(
        model=model, api_base=PLACES[model], api_key="sk-x",
        messages=[{"role": "user", "content": words}], num_retries=0, **more,
    )
async def main():
    for model in PLACES:
        see(model, await litellm.acompletion(**ask(model, "async look")))
        async for chunk in await litellm.acompletion(**ask(model, "async stream", stream=True)):
            see(model, chunk)
def go_on(model):
    asked = ask(model, "now look")
    said = asked["messages"]
    answer = litellm.completion(**asked).choices[0].message
    call = answer.tool_calls[0]
    said += [answer, {"role": "tool", "tool_call_id": call.id, "name": "look", "content": "3"}]
    see(model, litellm.completion(**asked))
for model in PLACES:
    see(model, litellm.completion(**ask(model, "plain")))
    go_on(model)
    for chunk in litellm.completion(**ask(model, "streamed", stream=True)):
        see(model, chunk)
    try:
        litellm.completion(**ask(model, "refused"))
    except Exception as error:
        seen.append([model, type(error).__qualname__, str(error)])
asyncio.run(main())
json.dump(seen, sys.stdout)
"""


def find_python() -> Path:
    """A Python with LiteLLM and what Relight needs, whose code comes from here."""
    folder = find_program("litellm", LITELLM).parent
    uv = shutil.which("uv") or shutil.which("uv", path=str(TOOLS / "uv" / "bin"))
    if not (folder / "relight-needs").exists() and uv:
        words = ["pip", "install", "--python", str(folder / "python")]
        needs = str(ROOT / "requirements" / "run.txt")
        run_installer([uv, "--quiet", *words, "--requirement", needs], "what Relight needs")
        (folder / "relight-needs").touch()
    return folder / "python"


def see(server: SdkServer, home: Path, *words: str) -> object:
    done = subprocess.run(
        [find_python(), "-c", PROGRAM, server.root_url, *words],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "RELIGHT_HOME": str(home),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "NO_PROXY": "*",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = re.sub(r'"(id|created)": ("[^"]*"|\d+)', '"": 0', done.stdout)
    return json.loads(shown.replace(server.root_url, "URL"))


@pytest.mark.programs
def test_a_call_of_litellm_is_one_turn_and_its_chunks_are_the_same(tmp_path: Path) -> None:
    with SdkServer() as server:
        plain = see(server, tmp_path)
    with SdkServer() as server:
        recorded = see(server, tmp_path, "--recorded")
        asked = len(server.requests)
    assert recorded == plain
    with open_store(tmp_path) as store:
        ((calls, turns),) = store.query("select count(*), sum(calls) from turn")
        models = store.query("select distinct model from turn order by 1")
        talks = store.query(
            "select c.tool, c.label, sum(t.calls) from session s join tool_call c on c.session_id ="
            " s.id join turn t on t.session_id = s.id where s.title = 'now look' group by s.id"
        )
    assert talks == [("look", "ok", 2)] * 3
    assert (calls, turns) == (asked, asked - 3)
    assert models == [("claude-sonnet-4-5",), ("gemini-2.5-pro",), ("gpt-5.1",)]
