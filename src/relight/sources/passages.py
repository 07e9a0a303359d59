"""The texts of calls and results that can be searched, as records give them one after another.

A text is quoted each time that it stands in the records, whatever the stretch that is read: so
the same texts are found however a file was cut.
"""

from collections.abc import Iterator, Mapping

from relight.model import Passage, ToolCall
from relight.sources.events import Returned

# of a result, which may be a whole file, only the beginning can be searched
RESULT_CHARACTERS = 500


def quote_call(call: ToolCall) -> Iterator[Passage]:
    """Yield a call's arguments, and its result if they were recorded together."""
    yield Passage(call.session, "call", call.arguments or "", call.tool)
    if call.result:
        yield Passage(call.session, "result", call.result[:RESULT_CHARACTERS], call.tool)


def quote_result(result: Returned, asked: Mapping[str, ToolCall]) -> Iterator[Passage]:
    """Yield the beginning of a result, with the tool if its call is among those asked for."""
    if result.name is not None and result.text:
        call = asked.get(result.name)
        text = result.text[:RESULT_CHARACTERS]
        yield Passage(result.session, "result", text, call.tool if call else None)
