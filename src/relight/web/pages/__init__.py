"""The table of pages, in the order of the navigation."""

from msgspec import Struct


class Page(Struct, frozen=True):
    """A page: the name of its module and template, its path and its title.

    `letter` after `g` opens it from the keyboard. `part_of` is the page that it belongs to.
    `ignores` are filters that its address keeps but that do not narrow what it shows; `since`
    stands for both ends of the period. `is_of_server` is as in `api.Query`.
    """

    name: str
    path: str
    title: str
    is_in_navigation: bool = True
    letter: str = ""
    part_of: str = ""
    ignores: tuple[str, ...] = ()
    is_of_server: bool = False


DAYS, NAMED = ("since",), ("source", "model", "project")
PAGES = (
    Page("overview", "/", "Overview", letter="o"),
    Page("sessions", "/sessions", "Sessions", letter="s"),
    Page("session", "/sessions/{name:path}", "Session", False, "", "sessions", DAYS),
    Page("search", "/search", "Search", letter="q", ignores=DAYS),
    Page("words", "/words/{text}/{name:path}", "Words", False, part_of="sessions"),
    Page("skills", "/skills", "Skills", letter="k", ignores=("source", "project")),
    Page("skill", "/skills/{name:path}", "Skill", False, part_of="skills"),
    Page("jobs", "/jobs", "Jobs", letter="j", ignores=(*DAYS, "project")),
    Page("job", "/jobs/{name:path}", "Job", False, "", "jobs", DAYS),
    Page("savings", "/savings", "Savings", False, "", "jobs", (*DAYS, *NAMED)),
    Page("templates", "/templates", "Templates", letter="t", ignores=(*DAYS, "source", "model")),
    Page("provisions", "/provisions", "Provisions", False, "", "templates", (*DAYS, *NAMED)),
    Page("template", "/templates/{name:path}", "Template", False, "", "templates", DAYS),
    Page("experiments", "/experiments", "Experiments", letter="e", ignores=(*DAYS, *NAMED)),
    Page("experiment", "/experiments/{name:path}", "Experiment", False, "", "experiments", DAYS),
    Page("mixtures", "/moa", "MoA", True, "m", "", ("source", "project"), is_of_server=True),
    Page("mixture", "/moa/{name:path}", "Mixture", False, "", "mixtures", DAYS, is_of_server=True),
    Page("failures", "/failures", "Failures", letter="f"),
    Page("lessons", "/lessons", "Lessons", False, "n", "failures", (*DAYS, "source", "model")),
    Page("limits", "/limits", "Limits", letter="l", ignores=("model", "project")),
    Page("prompt_cache", "/cache", "Cache", letter="c"),
    Page("glossary", "/glossary", "Glossary", False, ignores=(*DAYS, *NAMED)),
)
