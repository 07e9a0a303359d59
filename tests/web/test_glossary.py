from pathlib import Path

from relight.web.glossary import index_terms, read_terms
from serving import make_client


def test_every_form_of_a_word_names_one_term() -> None:
    forms = [name for term in read_terms() for name in (term.name, *term.also)]
    assert len(forms) == len(set(forms)) == len(index_terms())
    assert all(form == form.lower() for form in forms)


def test_the_page_has_every_word_without_a_script(tmp_path: Path) -> None:
    with make_client(tmp_path) as client:
        page = client.get("/glossary").text
    for term in read_terms():
        assert f'<dt id="{term.name.replace(" ", "-")}">{term.name}</dt>' in page
