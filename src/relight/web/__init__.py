"""The dashboard and its JSON API, on the user's own machine; nothing is loaded from outside.

A page is one module, one template and one row in `PAGES`:

    web/pages/<name>.py          def show(view: View) -> Context: the names its template sees
    web/templates/<name>.html    extends "layout.html"

`show` is a plain function. It runs in a reader's thread with `view.store`, a store that can only
read and shows everything as of one moment, so pages and imports never wait for each other.
`view.filters` are the filters of every page's address, `view.chosen` the same as
`reports.filters.Filter`, `view.path` the names in the address, `view.query` its other parameters.
`MissingError` becomes a 404 page and any other `RelightError` a 400, each with its hint.

Every template sees `view`, `page` (its row), `pages`, `link(path, **changes)`, which keeps the
filters of this address, `static(name)`, `secret` and `version`. Filters: `money`, `digits` (those
of a column of money), `number`, `duration`, `share`, `percent` (a share in a column), `moment`,
`line`, `snippet` (its parts), and `whole`, which turns a name into the filter that matches only it.
Template output is escaped, control characters and marks that change the direction of text are
shown, and None is a dash.

A page contains no script or style: no `<script>` with text, no `style=` or `on…=` attribute;
browsers ignore them. Pages change things by plain forms, which work without script:

    {% call parts.form(view, secret, "/api/jobs/nightly/pause", "pause", next="/jobs") %}
      <button class="button">Pause</button>
    {% endcall %}

The form goes to its own page, which performs the action with the form's fields as its body and
leads to `next`. If that fails, the page is shown again: the error stands in the form, once, and
`view.typed(action, name)` is what was typed into a field. `web/forms.py` has the rest.

A script sends a JSON body to the action's address, with the header `X-Relight-Secret`: it is in
`<meta name="relight-secret">`. `GET /api/live` returns `{"version": …}`, a text that changes with
the store: a visible page polls it every 0.75 seconds, and reloads itself when it differs from the
page's own `version`. The same response says whether the agents' folders are watched (`watch`).

An address of the API is one row in `api.QUERIES` or `actions.ACTIONS`; its Struct in `parameters`,
its docstring and its return type are its entry in `openapi.json`, which `./dev docs` writes.
"""
