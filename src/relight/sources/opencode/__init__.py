"""OpenCode's and Kilo's databases."""
