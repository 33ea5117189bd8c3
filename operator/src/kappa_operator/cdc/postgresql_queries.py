"""The catalog queries of PostgreSQL 12 and newer. Each returns a bounded number of rows."""

from typing import Final, LiteralString

MOST_ROWS: Final = 50_000

LIMITS: Final[LiteralString] = """
    SELECT set_config('search_path', '', true) AS path, set_config('statement_timeout', %s, true) AS statement, set_config('lock_timeout', '2000', true) AS lock
"""
SETTINGS: Final[LiteralString] = """
    SELECT name, setting FROM pg_settings WHERE name IN (
        'server_version_num', 'wal_level', 'max_replication_slots', 'max_wal_senders', 'wal_sender_timeout',
        'max_slot_wal_keep_size', 'hot_standby_feedback', 'synchronized_standby_slots')
"""
SERVER: Final[LiteralString] = """
    SELECT current_user AS user, role.rolsuper AS is_superuser,
        role.rolreplication OR COALESCE(
            (SELECT pg_has_role(rds.oid, 'USAGE') FROM pg_roles rds WHERE rds.rolname = 'rds_replication'), false) AS can_replicate,
        EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_replication') AS has_rds_role,
        has_database_privilege(current_database(), 'CREATE') AS can_create,
        pg_is_in_recovery() AS in_recovery,
        (SELECT count(*)::int FROM pg_stat_replication) AS senders
    FROM pg_roles role WHERE role.rolname = current_user
"""
_RETAINED: Final[LiteralString] = """
    SELECT slot_name AS name, active, pg_wal_lsn_diff(
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)::bigint AS retained_bytes,
        database, plugin, pg_wal_lsn_diff(confirmed_flush_lsn, '0/0')::bigint AS confirmed,
        (to_jsonb(slot) ->> 'failover')::boolean AS failover
"""
SLOTS_12: Final[LiteralString] = _RETAINED + " FROM pg_replication_slots slot ORDER BY 1 LIMIT 1000"
SLOTS: Final[LiteralString] = (
    _RETAINED
    + ", wal_status, safe_wal_size AS safe_bytes FROM pg_replication_slots slot ORDER BY 1 LIMIT 1000"
)
IDENTITY: Final[LiteralString] = """
    SELECT system_identifier::text AS system, timeline_id AS timeline FROM pg_control_system(), pg_control_checkpoint()
"""
MAY_IDENTIFY: Final[LiteralString] = """
    SELECT has_function_privilege('pg_control_system()', 'EXECUTE')
        AND has_function_privilege('pg_control_checkpoint()', 'EXECUTE') AS allowed
"""
PUBLICATION: Final[LiteralString] = """
    SELECT pg_has_role(pubowner, 'USAGE') AS owned, to_jsonb(pub) AS properties FROM pg_publication pub WHERE pubname = %s
"""
PUBLICATION_TABLES: Final[LiteralString] = """
    SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s LIMIT 50000
"""
PUBLICATION_FILTERS: Final[LiteralString] = """
    SELECT nspname, relname FROM pg_publication_rel
    JOIN pg_publication pub ON pub.oid = prpubid JOIN pg_class c ON c.oid = prrelid JOIN pg_namespace n ON n.oid = relnamespace
    WHERE pubname = %s AND (prqual IS NOT NULL OR prattrs IS NOT NULL) LIMIT 5000
"""
TABLES: Final[LiteralString] = """
    WITH patterns AS (SELECT * FROM unnest(%s::text[], %s::text[]) AS pattern (schema_like, name_like))
    SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind AS kind, c.relpersistence AS persistence,
        c.relreplident AS replica_identity, rn.nspname AS root_schema, r.relname AS root_name,
        EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indisvalid AND i.indimmediate)
            AS has_primary_key,
        EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident AND i.indisvalid) AS has_identity_index,
        (SELECT min(ic.relname::text) FROM pg_index i JOIN pg_class ic ON ic.oid = i.indexrelid
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND NOT i.indisprimary
                AND i.indpred IS NULL AND i.indexprs IS NULL AND NOT EXISTS (
                SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND NOT a.attnotnull)
        ) AS key_index,
        pg_has_role(c.relowner, 'USAGE') AS owned,
        has_schema_privilege(n.oid, 'USAGE') AS has_usage,
        has_table_privilege(c.oid, 'SELECT') AS has_select,
        has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE') AS has_write,
        row_security_active(c.oid) AS has_row_security,
        pg_relation_filenode(c.oid)::bigint AS file
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_class r ON c.relispartition AND r.oid = pg_partition_root(c.oid)
    LEFT JOIN pg_namespace rn ON rn.oid = r.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND EXISTS (SELECT FROM patterns WHERE
            (n.nspname LIKE schema_like ESCAPE '|' AND c.relname LIKE name_like ESCAPE '|')
            OR (rn.nspname LIKE schema_like ESCAPE '|' AND r.relname LIKE name_like ESCAPE '|'))
    ORDER BY 2, 3 LIMIT %s
"""
COLUMNS: Final[LiteralString] = """
    SELECT a.attrelid AS oid, a.attname AS name,
        format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END, NULL) AS type,
        COALESCE(element.typtype, base.typtype, t.typtype) AS type_kind,
        element.oid IS NOT NULL AS is_array, a.attgenerated <> '' AS is_generated, a.attndims AS dimensions
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_type base ON t.typtype = 'd' AND base.oid = t.typbasetype
    LEFT JOIN pg_type element ON t.typlen = -1 AND element.oid = t.typelem AND element.typarray = t.oid
    WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
        AND (a.attgenerated <> '' OR t.typtype <> 'b' OR element.oid IS NOT NULL OR t.oid > 16384 OR t.typname IN (
            'pg_lsn', 'pg_snapshot', 'txid_snapshot', 'tsquery', 'jsonpath', 'xid', 'xid8', 'cid', 'tid', 'aclitem', 'name'))
    ORDER BY a.attrelid, a.attnum LIMIT 50000
"""
# The length of a text is left out: events do not depend on it.
SHAPES: Final[LiteralString] = """
    SELECT n.nspname, c.relname, array_agg(a.attname::text ORDER BY a.attnum) AS names,
        array_agg(format_type(a.atttypid, CASE WHEN t.typname IN ('varchar', 'bpchar') THEN NULL ELSE a.atttypmod END) ORDER BY a.attnum) AS types,
        array_agg(i.indexrelid IS NOT NULL ORDER BY a.attnum) AS keys
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)
    WHERE c.oid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1, 2 LIMIT 5000
"""
