"""The record for agents, over the Model Context Protocol.

`command` starts the server, `protocol` speaks JSON-RPC by the shapes of `messages`, `tools` asks
the read side with the arguments and results of `tool_shapes`, `project_scope` limits it to a
project, and `open_record` makes what an agent may read of it.
"""
