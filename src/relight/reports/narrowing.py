"""Explanations of an empty result: the filter in the way, the result without it, the name meant."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from relight.store import Store
from relight.store.queries.filters import Filter, has_usage, is_whole
from relight.store.queries.listing import COUNTED, Listing, count_listed, select_sessions
from relight.text import make_line

# each filter in a sentence, in this order, and by its own name
PHRASES = {
    "search": ("with the words {}", "the words"),
    "outcome": ("of outcome {}", "the outcome"),
    "category": ("of kind {}", "the kind"),
    "failure": ("with a failure {}", "the failure"),
    "tool": ("with tool {}", "the tool"),
    "skill": ("with skill {}", "the skill"),
    "job": ("of job {}", "the job"),
    "template": ("with template {}", "the template"),
    "version": ("of its version {}", "the version"),
    "arm": ("that began {}", "how it began"),
    "experiment": ("of experiment {}", "the experiment"),
    "model": ("on model {}", "the model"),
    "project": ("in project {}", "the project"),
    "source": ("of source {}", "the source"),
    "machine": ("of machine {}", "the machine"),
    "person": ("of person {}", "the person"),
}
DAYS = ("since", "until")
# a name is near another one if so much of both is the same
NEAR = 0.7
NAMED_CHARACTERS = 60  # of a filter in a sentence
Given = Mapping[str, Any]


class WayOut(Struct, frozen=True):
    """A change of filters after which something matches; a filter set to None is removed."""

    words: str
    changes: dict[str, str | None]


class NoMatch(Struct, frozen=True):
    """The reason that nothing matches, and the ways out."""

    sentence: str
    ways: list[WayOut]

    @property
    def text(self) -> str:
        ways = ", ".join(self.words).replace("?,", "?")
        return f"{self.sentence}; {ways}" if ways else self.sentence

    @property
    def words(self) -> list[str]:
        return [way.words for way in self.ways]


def list_given(
    chosen: Filter, listing: Listing | None = None, *, job: str | None = None
) -> dict[str, Any]:
    """Return the filters that are set, by name; `job` is the name of the filter's jobs."""
    wanted = listing or Listing()
    found = {"since": chosen.since, "until": chosen.until, "job": job}
    for shape in (wanted, chosen):
        names = (name for name in PHRASES if name in shape.__struct_fields__)
        found |= {name: value for name in names if (value := getattr(shape, name)) is not None}
    return {name: value for name, value in found.items() if value is not None}


def make_filter(given: Given, *, jobs: tuple[str, ...] = ()) -> Filter:
    """Return the filter of some of the filters that are set; `jobs` are those of `job`."""
    names = [name for name in Filter.__struct_fields__ if name in given]
    return Filter(**{name: given[name] for name in names}, jobs=jobs if "job" in given else ())


def explain_no_session(
    store: Store, chosen: Filter, listing: Listing | None = None
) -> NoMatch | None:
    """Return why a list of sessions is empty; None if sessions match, or none is recorded."""
    has_subagents = listing is not None and listing.with_subagents

    def count(given: Given) -> int:
        return count_sessions(store, given, with_subagents=has_subagents)

    given = list_given(chosen, listing)
    if count(given) or not count({}):
        return None
    return explain_no_match(store, "session", given, count)


def count_sessions(store: Store, given: Given, *, with_subagents: bool = False) -> int:
    """Return how many sessions match some filters; one more than `COUNTED` stands for many."""
    own = {name: given[name] for name in Listing.__struct_fields__ if name in given}
    asked, chosen = Listing(**own, with_subagents=with_subagents), make_filter(given)
    if not has_usage(store, chosen):
        return 0
    return count_listed(store, select_sessions(store, chosen, asked))


def explain_no_match(
    store: Store, noun: str, given: Given, count: Callable[[Given], int]
) -> NoMatch:
    """Return why nothing matches all the filters given.

    `count` returns how many match some of them. The ways out are, first, a known name near one that
    no session has, then each filter without which something matches.
    """
    sentence = f"no {noun} {_describe(given)}".rstrip()
    if not given:
        return NoMatch(sentence, [])
    ways = [
        WayOut(f"did you mean '{near}'?", {name: near})
        for name in given
        if name in PHRASES and not count_sessions(store, {name: given[name]})
        if (near := find_near(store, name, str(given[name])))
    ]
    for name in [*(name for name in PHRASES if name in given), "days"]:
        removed = DAYS if name == "days" else (name,)
        rest = {one: value for one, value in given.items() if one not in removed}
        if len(rest) == len(given) or not (left := count(rest)):
            continue
        words = "on all days" if name == "days" else f"without {PHRASES[name][1]}"
        ways.append(WayOut(f"{words} {_write_count(left)}", _remove(removed)))
    if not ways and len(given) > 1 and (left := count({})):
        ways.append(WayOut(f"without any filter {_write_count(left)}", _remove(list(given))))
    return NoMatch(sentence, ways)


def find_near(store: Store, kind: str, typed: str) -> str | None:
    """Return the known name that is nearest to a misspelt one; None if none is near.

    A project may be named by the last part of its folder.
    """
    from difflib import SequenceMatcher

    from relight.store.queries.completions import NAMED, list_names

    if kind not in NAMED or len(typed.strip('"')) < 2:
        return None
    wanted = typed.strip('"').lower()
    best, found = NEAR, None
    matcher = SequenceMatcher(b=wanted)
    for name in list_names(store, kind):
        for part in dict.fromkeys((name, name.rstrip("/").rsplit("/", 1)[-1])):
            matcher.set_seq1(part.lower())
            if matcher.real_quick_ratio() > best and matcher.ratio() > best:
                best, found = matcher.ratio(), part
    return found


def _remove(names: Sequence[str]) -> dict[str, str | None]:
    """Return the changes that remove filters; without days, all days are meant."""
    changes: dict[str, str | None] = dict.fromkeys(names)
    return changes | ({"since": "all", "until": None} if set(DAYS) & set(names) else {})


def _describe(given: Given) -> str:
    parts = [_say(name, given[name]) for name in PHRASES if name in given]
    since, until = (given.get(name) for name in DAYS)
    if since and until:
        parts.append(f"on {since}" if since == until else f"from {since} to {until}")
    elif since or until:
        parts.append(f"since {since}" if since else f"until {until}")
    return " ".join(parts)


def _say(name: str, value: object) -> str:
    text = make_line(value, NAMED_CHARACTERS)
    if text == '""':
        return f"without {'an' if name == 'experiment' else 'a'} {name}"
    if name in ("outcome", "category", "version", "arm"):
        return PHRASES[name][0].format(text)
    return PHRASES[name][0].format(f"'{text[1:-1] if is_whole(text) else text}'")


def _write_count(number: int) -> str:
    return f"over {COUNTED:,}" if number > COUNTED else f"{number:,}"
