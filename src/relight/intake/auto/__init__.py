"""Record a program's model calls without a change in the program; `relight.auto` switches it on.

`hooks` waits until the program imports an HTTP library, and `clients` then watches its requests.
A request to a model is a `calls.ObservedCall`, which copies the bytes that pass and reads them when
the answer has ended. `conversations` finds the session that a request continues, and `recording`
records it. `scope` is what a program may say about its sessions. `startup` is the folder that
`relight exec` puts on the path of Python programs.
"""
