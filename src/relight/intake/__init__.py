"""The arrival of records: import of files, the live recorder, rebuild."""
