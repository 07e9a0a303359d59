"""Charts as SVG, drawn on the server.

A chart fills the width of its container: horizontal positions are percentages and heights are
pixels, so text keeps its size on a phone. Colours are classes (`s0` … `s5`, and the grey `rest`)
that the style sheet defines for light and dark: six are as many as everybody can distinguish, which
`tests/web/test_colours.py` computes. Every chart comes with a table of its figures.
"""
