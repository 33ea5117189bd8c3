"""Rules about a server of MySQL or MariaDB, its user and the requested tables. MySQL calls a schema a database."""

from collections.abc import Iterator

from kappa_operator.cdc.facts import MOST_TABLES, MySQLFacts, MySQLTable, TableName
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.quoting import quote_mysql_account, quote_mysql_table
from kappa_operator.cdc.rules.grants import has_global, has_on_table
from kappa_operator.cdc.rules.request import DAY, Request

_OLDEST = {True: (10, 4), False: (8, 0)}
"""The oldest versions of MariaDB and MySQL that Debezium 3 supports."""
_RESTART = "Restart the server afterwards."
_KEEP = "Write the same setting into the option file: without it a restart ends it."
_UTC = ("UTC", "+00:00", "GMT", "Etc/UTC")


def check_mysql(facts: MySQLFacts, request: Request) -> Iterator[Finding]:
    """Yield what is wrong with the server, the user and the tables."""
    yield from _check_version(facts)
    yield from _check_log(facts)
    yield from _check_row_settings(facts)
    yield from _check_retention(facts, request.retention)
    yield from _check_identity(facts)
    yield from _check_information(facts)
    yield from _check_privileges(facts)
    yield from _check_tables(facts, request)
    yield from _check_unparsed(facts, request)


def _check_version(facts: MySQLFacts) -> Iterator[Finding]:
    oldest = _OLDEST[facts.is_mariadb]
    if facts.version[:2] < oldest:
        name = "MariaDB" if facts.is_mariadb else "MySQL"
        found, wanted = (".".join(map(str, each[:2])) for each in (facts.version, oldest))
        yield Finding(
            Severity.ERROR, "version", "server", f"{name} {found} is older than {wanted}.",
            "Debezium does not support it.", advice="Upgrade the server.",
        )  # fmt: skip


def _check_log(facts: MySQLFacts) -> Iterator[Finding]:
    if not facts.is_on("log_bin"):
        yield Finding(
            Severity.ERROR, "log-bin", "log_bin", "The binary log is off.", "There is nothing that the connector could read.",
            configuration=("[mysqld]", "log_bin = binlog"), advice=_RESTART,
        )  # fmt: skip


def build_set(facts: MySQLFacts, variable: str, value: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return statements, lines of the option file and advice that set a variable. MariaDB has no SET PERSIST."""
    if facts.is_mariadb:
        return (
            (f"SET GLOBAL {variable} = {value};",),
            ("[mysqld]", f"{variable} = {value.strip(chr(39))}"),
            _KEEP,
        )
    return (f"SET PERSIST {variable} = {value};",), (), ""


def _check_row_settings(facts: MySQLFacts) -> Iterator[Finding]:
    for variable, wanted, why in (
        ("binlog_format", "ROW", "The log has statements instead of rows, so changes cannot be read."),
        ("binlog_row_image", "FULL", "Events lack columns that a statement did not change."),
        ("binlog_row_value_options", "", "Updates of JSON are partial, and the connector cannot read them."),
    ):
        value = facts.variables.get(variable)
        if value is not None and value.upper() != wanted:
            statements, lines, advice = build_set(facts, variable, f"'{wanted}'")
            yield Finding(
                Severity.ERROR, variable.replace("_", "-"), variable, f"{variable} is {value}, not {wanted or 'empty'}.", why,
                statements, lines, f"Connections that are open keep their value: restart the applications. {advice}".rstrip(),
            )  # fmt: skip


def find_retention(facts: MySQLFacts) -> float | None:
    """Return how long the binary log is kept, in seconds; None where nothing removes it by age."""
    seconds = float(facts.variables.get("binlog_expire_logs_seconds") or 0)
    days = float(facts.variables.get("expire_logs_days") or 0)
    return seconds or days * DAY or None


def _check_retention(facts: MySQLFacts, wanted: int) -> Iterator[Finding]:
    kept = find_retention(facts)
    if kept is None or kept >= wanted:
        return
    if "binlog_expire_logs_seconds" in facts.variables:
        statements, lines, advice = build_set(facts, "binlog_expire_logs_seconds", str(wanted))
    else:
        statements, lines, advice = build_set(facts, "expire_logs_days", str(-(-wanted // DAY)))
    yield Finding(
        Severity.ERROR, "binlog-retention", "binary log", f"It is kept for {kept / 3600:.1f} h, not for {wanted / 3600:.1f} h.",
        "A connector that is stopped for longer loses changes and needs a new snapshot.", statements, lines, advice,
    )  # fmt: skip


def _check_identity(facts: MySQLFacts) -> Iterator[Finding]:
    if facts.variables.get("server_id", "0") == "0":
        statements, lines, advice = build_set(facts, "server_id", "1")
        yield Finding(
            Severity.ERROR, "server-id", "server_id", "server_id is 0.", "The server refuses connections that read its binary log.",
            statements, lines, f"Replace 1 if another server of the group has it. {advice}".rstrip(),
        )  # fmt: skip


def _check_information(facts: MySQLFacts) -> Iterator[Finding]:
    mode = facts.variables.get("gtid_mode", "ON")
    if mode.upper() != "ON":
        yield Finding(
            Severity.INFORMATION, "gtid-mode", "gtid_mode", f"gtid_mode is {mode}.",
            "Positions are files and offsets, so the connector cannot continue on another server after a failover.",
        )  # fmt: skip
    if "NO_ZERO_DATE" not in facts.variables.get("sql_mode", ""):
        yield Finding(
            Severity.INFORMATION, "zero-dates", "sql_mode", "Zero dates are allowed.",
            "Debezium reads 0000-00-00 as null, or as 1970-01-01 where the column is NOT NULL.",
        )  # fmt: skip
    zone = facts.variables.get("time_zone", "SYSTEM")
    zone = facts.variables.get("system_time_zone", "") if zone == "SYSTEM" else zone
    if zone not in _UTC:
        yield Finding(
            Severity.INFORMATION, "time-zone", "time_zone", f"The time zone of the server is {zone}.",
            "TIMESTAMP has an instant, DATETIME has no zone: views have to know the zone that its writers used.",
        )  # fmt: skip


def _check_privileges(facts: MySQLFacts) -> Iterator[Finding]:
    client = ("BINLOG MONITOR", "REPLICATION CLIENT") if facts.is_mariadb else ("REPLICATION CLIENT",)
    replica = ("REPLICATION SLAVE", "REPLICATION REPLICA")
    unproven = "" if facts.is_mariadb else " Tables cannot be proven equal to their topics."
    for names, severity, why in (
        (replica, Severity.ERROR, "The connector cannot read the binary log."),
        (client, Severity.ERROR, "The connector cannot read the position of the binary log."),
        (("RELOAD",), Severity.ERROR, "The snapshot cannot lock the tables for its position."),
        (("SHOW DATABASES",), Severity.WARNING, "The connector sees only databases with a privilege for its user."),
        (("LOCK TABLES",), Severity.WARNING, f"Where the server forbids a global read lock, as on Amazon RDS, the snapshot fails.{unproven}"),
    ):  # fmt: skip
        if not has_global(facts.grants, names):
            account = quote_mysql_account(facts.account)
            yield Finding(
                severity, names[0].lower().replace(" ", "-"), f"user {facts.account[0]}", f"The user lacks {names[0]}.", why,
                (f"GRANT {names[0]} ON *.* TO {account};",),
            )  # fmt: skip


def _check_tables(facts: MySQLFacts, request: Request) -> Iterator[Finding]:
    for pattern in request.patterns:
        if not any(pattern.matches(each.name) for each in facts.tables):
            grant = f"GRANT SELECT ON {quote_mysql_table(TableName(pattern.schema, pattern.name))} TO {quote_mysql_account(facts.account)};"
            yield Finding(
                Severity.ERROR, "no-such-table", f"table {pattern}", "The user sees no table that matches.",
                "The connector would read nothing.", (grant,) if pattern.is_exact else (),
                advice="A table without a privilege is invisible: grant SELECT. If there is no such table, correct the pattern.",
            )  # fmt: skip
    if len(facts.tables) >= MOST_TABLES:
        yield Finding(
            Severity.WARNING, "too-many-tables", "tables", f"Only the first {MOST_TABLES} tables were checked.",
            "The rest may lack what the connector needs.", advice="Name the tables with --table.",
        )  # fmt: skip
    for table in facts.tables:
        named = any(each.is_exact and each.matches(table.name) for each in request.patterns)
        if named or any(each.matches(table.name) for each in request.patterns):
            yield from _check_table(facts, table, named=named)


def _check_table(facts: MySQLFacts, table: MySQLTable, *, named: bool) -> Iterator[Finding]:
    subject, quoted = f"table {table.name}", quote_mysql_table(table.name)
    if table.kind != "BASE TABLE":
        yield Finding(
            Severity.ERROR if named else Severity.INFORMATION, "not-a-table", subject,
            f"It is a {table.kind.lower()}, and is not captured.", "Its changes are not in the binary log.",
            advice="Name the tables that have its rows instead." if named else "",
        )  # fmt: skip
        return
    if not has_on_table(facts.grants, "SELECT", table.name):
        account = quote_mysql_account(facts.account)
        yield Finding(
            Severity.ERROR, "select", subject, f"User {facts.account[0]} lacks SELECT.", "The snapshot cannot read the table.",
            (f"GRANT SELECT ON {quoted} TO {account};",),
        )  # fmt: skip
    if not table.is_transactional:
        yield Finding(
            Severity.WARNING, "engine", subject, f"The engine {table.engine} has no transactions.",
            "The snapshot is not consistent, and changes that are rolled back arrive.",
            (f"ALTER TABLE {quoted} ENGINE = InnoDB;",), advice="The statement rewrites the table.",
        )  # fmt: skip
    if not table.has_primary_key:
        yield Finding(
            Severity.WARNING, "no-primary-key", subject, "The table has no primary key.",
            "Events have no key, so their topic cannot be compacted, and an update cannot be matched to its row.",
            advice="Add a primary key, or choose key columns in the connector (message.key.columns).",
        )  # fmt: skip


def _check_unparsed(facts: MySQLFacts, request: Request) -> Iterator[Finding]:
    for column in facts.unparsed:
        captured = any(each.matches(column.table) for each in request.patterns)
        why = "The connector cannot parse the definition of the table, and stops."
        later = "The table is not captured, but a later statement that alters it and names the type stops the connector."
        yield Finding(
            Severity.ERROR if captured else Severity.WARNING, "column-type", f"column {column.table}.{column.name}",
            f"Debezium for MariaDB does not know the type {column.type}.", why if captured else later,
            advice="Use a text or binary type, or keep such tables in another database.",
        )  # fmt: skip
