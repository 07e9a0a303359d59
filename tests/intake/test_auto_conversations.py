"""A request that begins with an earlier request and its answer continues that session."""

import json
from typing import Any

from relight.chat.request_reader import read_request
from relight.chat.requests import WireFormat, WireRequest
from relight.chat.responses import read_whole
from relight.intake.auto.conversations import Continuation, Conversations
from scripted import Reply, call
from scripted_sdks import WHOLE

PATHS = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/messages",
    "gemini": "/models/m:generateContent",
}
FIELDS = {"responses": "input", "gemini": "contents"}


class Talk:
    """Requests in one format, each with an answer unless it fails."""

    def __init__(self, name: WireFormat = "chat") -> None:
        self.name = name
        self.known = Conversations()

    def request(self, items: list[Any], **more: Any) -> WireRequest:
        field = FIELDS.get(self.name, "messages")
        body = json.dumps({"model": "m", field: items, **more}).encode()
        found = read_request(PATHS[self.name], body)
        assert found is not None
        return found

    def ask(
        self, session: str, items: list[Any], reply: Reply | None, *, named: str | None = None
    ) -> Continuation:
        request = self.request(items)
        found = self.known.find(request, named=named)
        if reply is None:
            self.known.note_failure(found.session or session, found, named=named)
        else:
            answer = read_whole(self.name, json.dumps(WHOLE[self.name](reply, {})).encode())
            self.known.note_answer(found.session or session, found, request, answer, named=named)
        return found


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def texts(found: Continuation) -> list[str]:
    return [part.text for part in found.new]


def test_only_what_is_new_is_new() -> None:
    talk = Talk()
    assert talk.ask("one", [user("a")], Reply("A")).session is None
    found = talk.ask("one", [user("a"), said("A"), user("b")], Reply("B"))
    assert (found.session, texts(found)) == ("one", ["b"])
    found = talk.ask("one", [user("a"), said("A"), user("b"), said("B"), user("c")], Reply("C"))
    assert (found.session, texts(found)) == ("one", ["c"])


def test_an_answer_may_be_written_in_another_way() -> None:
    talk = Talk()
    talk.ask("one", [user("a")], Reply("Yes,\n it  is."))
    parts = [{"type": "text", "text": "Yes, it is."}]
    for written in (said(" Yes, it is. "), {"role": "assistant", "content": parts}):
        assert talk.ask("", [user("a"), written, user("b")], None).session == "one"


def test_another_answer_or_another_question_begins_another_session() -> None:
    talk = Talk()
    talk.ask("one", [user("a")], Reply("A"))
    assert talk.ask("", [user("a"), said("B"), user("b")], Reply("C")).session is None
    assert talk.ask("", [user("x"), said("A"), user("b")], Reply("C")).session is None
    assert talk.ask("", [user("a")], Reply("A")).session is None


def test_calls_are_compared_by_their_ids() -> None:
    talk = Talk()
    talk.ask("one", [user("a")], Reply(None, [call("look", "x")]))
    talk.ask("two", [user("a")], Reply(None, [call("look", "y")]))
    for key, session in (("x", "one"), ("y", "two")):
        result = {"role": "tool", "tool_call_id": key, "content": "3"}
        items = [user("a"), {"role": "assistant", "tool_calls": [call("look", key)]}, result]
        found = talk.ask("", items, Reply("C"))
        assert (found.session, texts(found)) == (session, ["3"])


def test_a_call_of_gemini_may_be_repeated_without_its_id() -> None:
    talk = Talk("gemini")
    asked = {"role": "user", "parts": [{"text": "a"}]}
    talk.ask("one", [asked], Reply(None, [call("look", "x")]))
    repeated = {"role": "model", "parts": [{"function_call": {"name": "look", "args": {}}}]}
    returned = {"name": "look", "response": {"content": "3"}}
    result = {"role": "user", "parts": [{"function_response": returned}]}
    found = talk.ask("", [asked, repeated, result], Reply("C"))
    assert (found.session, texts(found)) == ("one", ['{"content":"3"}'])


def test_a_retry_continues_the_session_of_the_request_that_failed_once() -> None:
    talk = Talk()
    talk.ask("one", [user("a")], None)
    found = talk.ask("", [user("a")], Reply("A"))
    assert (found.session, texts(found)) == ("one", [])
    assert talk.ask("", [user("a")], Reply("A")).session is None


def test_a_changed_system_prompt_changes_no_session() -> None:
    talk = Talk()
    system = {"role": "system", "content": "It is 8:00."}
    talk.ask("one", [system, user("a")], Reply("A"))
    later = {"role": "system", "content": "It is 9:00."}
    found = talk.ask("", [later, user("a"), said("A"), user("b")], Reply("B"))
    assert (found.session, texts(found)) == ("one", ["b"])


def test_thoughts_are_not_compared() -> None:
    talk = Talk("messages")
    talk.ask("one", [user("a")], Reply("A"))
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    for parts in ([thought, {"type": "text", "text": "A"}], "A"):
        answer = {"role": "assistant", "content": parts}
        assert talk.ask("", [user("a"), answer, user("b")], None).session == "one"


def test_the_items_of_one_answer_are_compared_together() -> None:
    talk = Talk("responses")
    reply = Reply("Let me look.", [call("look", "x")])
    talk.ask("one", [user("a")], reply)
    result = {"type": "function_call_output", "call_id": "x", "output": "3"}
    items = [user("a"), *WHOLE["responses"](reply, {})["output"], result]
    assert talk.ask("", items, Reply("C")).session == "one"
    # without the model's thoughts, as many programs send it
    assert talk.ask("", [items[0], *items[2:]], Reply("C")).session == "one"


def test_a_response_continues_the_one_that_it_names() -> None:
    talk = Talk("responses")
    talk.ask("one", [user("a")], Reply("A"))
    answer = WHOLE["responses"](Reply("A"), {})
    request = talk.request([user("b")], previous_response_id=answer["id"])
    found = talk.known.find(request)
    assert (found.session, texts(found)) == ("one", ["b"])


def test_what_was_said_before_the_program_began_is_not_recorded_again() -> None:
    found = Talk().ask("", [user("a"), said("A"), user("b"), said("B"), user("c")], Reply("C"))
    assert (found.session, texts(found)) == (None, ["c"])


def test_a_named_session_is_not_left() -> None:
    talk = Talk()
    talk.ask("one", [user("a")], Reply("A"))
    found = talk.ask("", [user("a"), said("A"), user("b")], Reply("B"), named="mine")
    assert (found.session, texts(found)) == ("mine", ["b"])
    more = [user("a"), said("A"), user("b"), said("B"), user("c"), user("d")]
    assert texts(talk.ask("mine", more, Reply("C"), named="mine")) == ["c", "d"]
