"""api: the node seen over HTTP.

Owns: the route table, which is the authorisation table; identities; bodies and their limits;
problems; the server.
May import: `node`, `journal`, `views`, `kernel`, `model`, `values`, `errors`.
Refuses: to decide anything about a world, to answer before a commit is durable, and to serve a
route that has no scope.
"""
