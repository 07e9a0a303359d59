"""A program that talks to models through the real SDKs and prints all that it sees of them.

It runs with and without Relight, which it knows nothing about: `python sdk_program.py URL`.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

TOOL = {"name": "look", "description": "Look", "parameters": {"type": "object", "properties": {}}}
SEEN: list[Any] = []


def see(case: str, value: Any) -> Any:
    """Note an object of an SDK: its type, and all that is in it."""
    dump = getattr(value, "model_dump", None)
    shown = dump(mode="json", warnings=False) if dump else value
    SEEN.append([case, type(value).__qualname__, shown])
    return value


def fail(case: str, action: Callable[[], Any]) -> None:
    try:
        see(case, action())
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises
        SEEN.append([case, type(error).__qualname__, str(error)])


async def fail_async(case: str, action: Callable[[], Any]) -> None:
    try:
        see(case, await action())
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises
        SEEN.append([case, type(error).__qualname__, str(error)])


def ask(words: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": words}]


def use_openai(url: str) -> None:
    import httpx
    import openai

    client: Any = openai.OpenAI(base_url=f"{url}/v1", api_key="sk-x", max_retries=1)
    create = client.chat.completions.create
    system = [{"role": "system", "content": "Be brief."}]
    messages: Any = [*system, *ask("chat look")]
    tools: Any = [{"type": "function", "function": TOOL}]
    first = see("chat", create(model="gpt-5.1", messages=messages, tools=tools))
    result = {"role": "tool", "tool_call_id": "call_1", "content": "3 apples"}
    messages += [first.choices[0].message, result]
    see("chat result", create(model="gpt-5.1", messages=messages, tools=tools))
    more: Any = {"stream_options": {"include_usage": True}}
    for words in ("chat stream", "chat packed", "chat look"):
        stream = create(model="gpt-5.1", messages=ask(words), stream=True, **more)
        for chunk in stream:
            see(words, chunk)
        SEEN.append([words, type(stream).__name__, stream.response.is_closed])
    with create(model="gpt-5.1", messages=ask("chat left"), stream=True) as stream:
        see("chat left", next(iter(stream)))
    raw = client.chat.completions.with_raw_response.create(
        model="gpt-5.1", messages=ask("chat raw")
    )
    see("chat raw", raw.parse())
    SEEN.append(["raw", raw.http_response.elapsed.total_seconds() > 0, raw.headers["content-type"]])
    open_stream = client.chat.completions.with_streaming_response.create
    with open_stream(model="gpt-5.1", messages=ask("chat lines"), stream=True) as response:
        SEEN.append(["chat lines", list(response.iter_lines())])
    with client.chat.completions.stream(model="gpt-5.1", messages=ask("chat events")) as events:
        for event in events:
            see("chat events", event)
    fail("chat refused", lambda: create(model="gpt-5.1", messages=ask("chat refused")))
    see("chat busy", create(model="gpt-5.1", messages=ask("chat busy")))
    fail(
        "chat broken",
        lambda: [*map(dump, create(model="gpt-5.1", messages=ask("chat broken"), stream=True))],
    )
    older = client.with_options(http_client=httpx.Client(trust_env=False))
    for chunk in older.chat.completions.create(
        model="gpt-5.1", messages=ask("chat older"), stream=True
    ):
        see("chat older", chunk)
    see("chat older", older.chat.completions.create(model="gpt-5.1", messages=ask("chat older 2")))
    respond = client.responses.create
    answer = see("responses", respond(model="gpt-5.1", input="responses look", instructions="Be"))
    given: Any = [{"type": "function_call_output", "call_id": "call_1", "output": "3 apples"}]
    see(
        "responses result",
        respond(model="gpt-5.1", input=given, previous_response_id=answer.id),
    )
    talk: Any = [*ask("responses stream")]
    for number in range(2):
        with client.responses.stream(model="gpt-5.1", input=talk) as events:
            for event in events:
                see("responses stream", event)
            final = events.get_final_response()
        talk += [item.model_dump(exclude_none=True) for item in final.output]
        talk += ask(f"responses more {number}")
    asyncio.run(use_openai_async(url))


def dump(chunk: Any) -> Any:
    return chunk.model_dump(mode="json", warnings=False)


async def use_openai_async(url: str) -> None:
    import openai

    made: Any = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-x", max_retries=1)
    async with made as client:
        create = client.chat.completions.create
        see("async chat", await create(model="gpt-5.1", messages=ask("async chat")))
        stream = await create(model="gpt-5.1", messages=ask("async stream"), stream=True)
        async for chunk in stream:
            see("async stream", chunk)
        async with await create(model="gpt-5.1", messages=ask("async left"), stream=True) as stream:
            async for chunk in stream:
                see("async left", chunk)
                break
        await fail_async(
            "async refused", lambda: create(model="gpt-5.1", messages=ask("async refused"))
        )
        both = (ask("async one"), ask("async two"))
        for one in await asyncio.gather(*(create(model="gpt-5.1", messages=m) for m in both)):
            see("async both", one)
        async for event in await client.responses.create(
            model="gpt-5.1", input="async responses", stream=True
        ):
            see("async responses", event)


def use_anthropic(url: str) -> None:
    import anthropic

    client: Any = anthropic.Anthropic(base_url=url, api_key="sk-ant-x", max_retries=1)
    more: Any = {"model": "claude-sonnet-4-5", "max_tokens": 100, "system": "Be brief."}
    messages: Any = ask("messages look")
    first = see("messages", client.messages.create(messages=messages, **more))
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "none", "is_error": True}
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    see("messages result", client.messages.create(messages=messages, **more))
    for event in client.messages.create(messages=ask("messages events"), stream=True, **more):
        see("messages events", event)
    with client.messages.stream(messages=ask("messages packed"), **more) as stream:
        SEEN.append(["messages packed", list(stream.text_stream)])
        see("messages packed", stream.get_final_message())
    fail("messages refused", lambda: client.messages.create(messages=ask("m refused"), **more))
    see("messages busy", client.messages.create(messages=ask("messages busy"), **more))
    asyncio.run(use_anthropic_async(url, more))


async def use_anthropic_async(url: str, more: dict[str, Any]) -> None:
    import anthropic

    made: Any = anthropic.AsyncAnthropic(base_url=url, api_key="sk-ant-x", max_retries=1)
    async with made as client:
        see("async messages", await client.messages.create(messages=ask("async messages"), **more))
        async with client.messages.stream(messages=ask("async look"), **more) as stream:
            async for event in stream:
                see("async look", event)


def use_google(url: str) -> None:
    from google import genai
    from google.genai import types

    options: Any = {"base_url": url}
    client: Any = genai.Client(api_key="x", http_options=options)
    model = "gemini-2.5-pro"
    see("gemini", client.models.generate_content(model=model, contents="gemini look"))
    for chunk in client.models.generate_content_stream(model=model, contents="gemini stream"):
        see("gemini stream", chunk)
    chat = client.chats.create(model=model)
    see("gemini chat", chat.send_message("gemini chat look"))
    given = types.Part.from_function_response(name="look", response={"error": "no apples"})
    for chunk in chat.send_message_stream(given):
        see("gemini chat", chunk)
    see("gemini chat", chat.send_message("gemini more"))
    fail("refused", lambda: client.models.generate_content(model=model, contents="g refused"))
    asyncio.run(use_google_async(url, model))


async def use_google_async(url: str, model: str) -> None:
    import httpx
    from google import genai

    # with aiohttp, which it prefers, and with httpx
    for options in ({}, {"httpx_async_client": httpx.AsyncClient()}):
        given: Any = {"base_url": url, **options}
        client: Any = genai.Client(api_key="x", http_options=given).aio
        case = f"async {[*options]}"
        see(case, await client.models.generate_content(model=model, contents=case))
        async for chunk in await client.models.generate_content_stream(
            model=model, contents=f"{case} stream"
        ):
            see(case, chunk)
        refused = partial(client.models.generate_content, model=model, contents=f"{case} refused")
        await fail_async(case, refused)
        await client.aclose()


SDKS = {"openai": use_openai, "anthropic": use_anthropic, "google": use_google}

if __name__ == "__main__":
    shown = {}
    for name, use in SDKS.items():
        use(sys.argv[1])
        shown[name] = list(SEEN)
        SEEN.clear()
    json.dump(shown, sys.stdout, indent=0, default=str)
