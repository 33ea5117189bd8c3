"""Errors of a connection to a database. No message has text of the server, which another team may control.

DatabaseProblem
├── DatabaseUnreachable        no connection, a refused log-in, or no answer in time
└── ConnectDenied              the user may not connect to the database: a finding, because a statement fixes it
"""


class DatabaseProblem(Exception):
    """The facts of a database cannot be gathered; the message has the cause and the fix."""


class DatabaseUnreachable(DatabaseProblem):
    """No connection, a refused log-in, or no answer in time."""


class ConnectDenied(DatabaseProblem):
    """The user lacks CONNECT on the database."""
