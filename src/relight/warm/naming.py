"""Names of templates, made of the words of their tasks."""

import re
from pathlib import PurePath

from relight.chat.similarity import LIMIT, weigh_words
from relight.names import slug
from relight.store import Store
from relight.store.template_words import read_calibration, read_rarities

SHORT_WORDS = 8  # a task of so few words is its own name
NAME_WORDS, NAME_WORDS_LEAST = 5, 3
NAME_CHARACTERS = 40
COMMON = 0.1  # of all templates: a word that more of them hold is too common for a name
# a name is for lists and files: greetings and people's names do not belong there
_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day))\b"
    r"(?: there| all| everyone| team)?[\s,.!:;–-]*",
    re.IGNORECASE,
)
# a task begins with what is to be done: the words that ask for it are no part of a name
_ASKING = re.compile(
    r"\W*(?:(?:thanks|thank you|great|perfect)\b[^.!\n]{0,40}[.!]\s*)?"
    r"(?:now|next|then|also|so)?[\s,]*"
    r"(?:please\b|(?:could|can|would|will) you\b|i['’]?d like (?:you )?to\b|let(?:'|’)?s\b"
    r"|(?:i|we) (?:want|need|would like) (?:you )?to\b"
    r"|your task is to\b|help me(?: to)?\b|[\s,])*",
    re.IGNORECASE,
)
# the word that most tasks begin with; another word with a capital may be a person's name
_VERB = re.compile(
    r"(?:add|allow|build|bump|change|check|clean|convert|correct|create|debug|delete|document|drop|explain"
    r"|export|extend|extract|find|fix|implement|import|improve|install|investigate|make|merge|migrate"
    r"|move|port|prepare|refactor|release|remove|rename|replace|restore|review|rewrite|run|set|show"
    r"|simplify|speed|split|support|switch|test|translate|update|upgrade|use|write)\b",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:(?i:my (?:\w+ )?name(?: is|'s|’s)|name:)\s+\w+|(?i:i am|i'm|i’m)\s+[A-Z]\w+)"
    r"(?:[ -][A-Z]\w+){0,2}(?i:\s+and\b)?[\s,.!:;–-]*"
)
# the lines with which a harness introduces a task: a tag, and words that end in a colon
_LEAD_IN = re.compile(
    rf"(?:\s*(?:<[\w-]+>|(?!{_VERB.pattern})[^\n]{{1,80}}:)[ \t]*\r?\n(?=\s*\S))+", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"[.:;?!]\s|,\s|\n\s*\n")


def propose_name(store: Store, text: str, *, category: str, project: str | None) -> str:
    """Return a name from the words of a task; the library adds a number if it is taken."""
    asked = text[:LIMIT]
    if lead := _LEAD_IN.match(asked):
        asked = asked[lead.end() :]
    plain = _PERSON.sub(" ", _GREETING.sub("", asked, count=1))
    plain = _ASKING.sub("", plain, count=1)
    verb = _VERB.match(plain)
    if plain[:2].istitle() and verb:
        plain = plain[0].lower() + plain[1:]
    words = plain.split()
    if len(words) > SHORT_WORDS:
        words = _find_rare_words(store, plain)
        if verb and (first := verb[0].lower()) not in words:  # many templates add or fix something
            words = [first, *words[: NAME_WORDS - 1]]
    elif len(plain.strip()) > NAME_CHARACTERS:
        words = [word for word in words if weigh_words(word)] or words
    name = slug(" ".join(words), limit=NAME_CHARACTERS)
    return name or slug(f"{category} {PurePath(project or '').name}", limit=NAME_CHARACTERS)


def _find_rare_words(store: Store, text: str) -> list[str]:
    """Return the first words that few templates hold, or the rarest if fewer than two are rare.

    In running text a capital letter begins a sentence or a name, so such words are left out; those
    of capitals alone are formats and the like. A first sentence of three rare words or more is
    what the task is about.
    """
    stems = {
        word: list(found)
        for word in _WORD.findall(text)
        if (word.islower() or (word.isupper() and len(word) > 1))
        and not any(map(str.isdigit, word))
        and (found := weigh_words(word))
    }
    with store.reading() as database:
        most = COMMON * read_calibration(database).live
        known = read_rarities(database, {stem for found in stems.values() for stem in found})
    held = {
        word: min(known[stem].holding if stem in known else 0 for stem in found)
        for word, found in stems.items()
    }
    rare = [word for word in held if held[word] <= most]
    first = set(_WORD.findall(_SENTENCE.split(text.strip(), maxsplit=1)[0]))
    if len(leading := [word for word in rare if word in first]) >= NAME_WORDS_LEAST:
        return leading[:NAME_WORDS]
    if len(rare) > 1:
        return rare[:NAME_WORDS]
    rarest = sorted(held, key=held.__getitem__)[:NAME_WORDS_LEAST]
    return [word for word in held if word in rarest]
