"""How records arrive: import files, the live recorder, rebuild."""
