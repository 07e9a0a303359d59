"""The door: seal and record, and the tables they write."""
