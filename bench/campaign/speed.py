"""The CPU time of functions that read any text, when the text doubles: figures, no limits."""

import time
from collections.abc import Callable, Iterator

from bench.campaign.hostile import repeat
from bench.campaign.score import Clock
from relight.chat.blocks import strip_block
from relight.redact import redact
from relight.secret_shapes import read_secret_table

SIZES = (10_000, 20_000, 40_000)
PIECES = (
    *(
        "<relight-example ",
        "curl -u a:b",
        "curl -u 'a:bcd",
        "curl --user ",
        "mysql -pab",
        "cookie=k",
        "cookie: a=b;",
    ),
    *(
        "://a:bcd@",
        "password=a1b2c3d4password=",
        'password="\\\\',
        "eyJaaaaaaaa.",
        "\\u0070",
        "%5Fa",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
        "machine a login b password ",
        "hf_ab1",
    ),
    *("- name: PASSWORD\n", "kind: Secret\ndata:\n", "<relight-example></"),
)


def measure_growth(clock: Clock) -> list[str]:
    """Return lines: the text whose cost by byte grows most, and the dearest, for each function."""
    functions: dict[str, Callable[[str], object]] = {
        "redact": lambda text: redact(text.encode(), key=b"k" * 32, known=()),
        "strip_block": strip_block,
    }
    redact(b"", key=b"k" * 32, known=())  # the expressions are compiled once
    lines = []
    for name, function in functions.items():
        found = list(measure(function, clock.part(0.5)))
        ratio, piece, _ = max(found)
        cost, _, dear = max((each[-1], ratio, text) for ratio, text, each in found)
        lines.append(
            f"{name}: {len(found)} texts doubled twice, CPU by byte × {ratio:.2f} at most"
            f" ({piece[:20]!r}); {cost * 1e9:.0f} ns a byte at most ({dear[:20]!r})"
        )
    return lines


def measure(
    function: Callable[[str], object], clock: Clock
) -> Iterator[tuple[float, str, list[float]]]:
    """Yield the growth of the cost by byte from the smallest to the largest, text and costs."""
    hits = [hit for rule in read_secret_table().rule for hit in rule.hit[:1]]
    pieces = [*PIECES, *hits]
    for number in clock.rounds(most=len(pieces)):
        each = [min(cost_by_byte(function, pieces[number], size) for _ in "12") for size in SIZES]
        yield each[-1] / max(each[0], 1e-10), pieces[number], each


def cost_by_byte(function: Callable[[str], object], piece: str, size: int) -> float:
    text = repeat(piece, size)
    started = time.process_time()
    function(text)
    return (time.process_time() - started) / size
