"""Telemetry: what programs send as OpenTelemetry, received over HTTP and read from spool files.

`otlp_requests` parses requests (`protobuf`, JSON), `names` knows the attributes
(`data/telemetry.toml`), `messages` finds the conversation in them, `lines` are the records of spool
files, `reader` turns these into events, `agents` those of agents whose files are read as well.
"""
