"""Session text made readable: pure functions from text to safe HTML.

    markdown    answers as Markdown, without raw HTML, images or links other than to the web
    highlight   code with coloured words
    diffs       the lines of an edit, what was added and removed (`judging/edits` finds them)
    tasks       tool calls that keep a list of tasks
    calls       a call's arguments in the best of these forms

Session text is hostile. Everything is escaped, hidden characters are shown, the work is bounded,
and the HTML has no style or script: its classes are in `relight.css`.
"""
