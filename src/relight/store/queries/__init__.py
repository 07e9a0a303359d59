"""The queries behind the reports: SQL here, its meaning in `relight.reports`."""
