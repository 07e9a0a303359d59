"""The dashboard and its JSON API, on the user's own machine; nothing is loaded from outside.

A page is one module, one template and one row in `PAGES`:

    web/pages/<name>.py          def show(view: View) -> dict[str, Any]: what its template shows
    web/templates/<name>.html    extends "layout.html"

`show` is a plain function. It runs in a thread of its own with `view.store`, a store that can only
read and answers everything as of one moment, so a page never waits for an import and no import
waits for a page. `view.filters` are the filters of every page's address, `view.chosen` the same as
`reports.filters.Filter`, `view.path` what the address names, `view.query` its other parameters.
`MissingError` becomes a 404 page and any other `RelightError` a 400, each with its hint.

Every template sees `view`, `page` (its row), `pages`, `link(path, **changes)`, which keeps the
filters of this address, `static(name)`, `secret` and `version`. Filters: `money`, `number`,
`duration`, `share`, `moment`, `day`, `size`, `line`, and `whole`, which makes of a name the filter
that takes no other. Whatever a template prints is escaped, freed of control characters and marks
that turn text around, and a dash where it is None.

No script or style may stand in a page: no `<script>` with text, no `style=` or `on…=` attribute;
browsers are told to ignore them. Pages change things by a plain form, which works without script:

    <form method="post" action="/api/jobs/nightly/pause">
      <input type="hidden" name="secret" value="{{ secret }}">
      <input type="hidden" name="next" value="/jobs/nightly">

A script does the same with a JSON body and the header `X-Relight-Secret`, which it finds in
`<meta name="relight-secret">`. `GET /api/live` gives `{"version": …}`, another text as soon as the
store has changed; ask every two seconds while the tab is visible, and fetch the page anew when it
differs from the `version` it was made with.
"""
